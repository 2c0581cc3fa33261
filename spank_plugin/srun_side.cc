// In srun: one host process for the step, started before the launch, so that its endpoint and
// secret travel to the tasks in their environment. srun only reads a few lines from it; everything
// else is the host's own business, and the host ends by itself when the run is over or srun is
// gone.

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "proto/environment.h"
#include "spank_plugin/options.h"
#include "spank_plugin/step.h"

extern char** environ;

namespace muster::spank {
namespace {

// The host makes a key, binds a port and starts the daemon: a fraction of a second. A machine that
// needs longer than this is in trouble, and the user waits at the prompt.
constexpr std::chrono::seconds kHostReadyTimeout(30);
// A certificate and a program's options with its arguments.
constexpr std::size_t kAnswerBytesMax = 1u << 20;
constexpr int kReadyDescriptor = 3;

// Tasks that carry it print it and end: an optional plugin's failure is otherwise dropped, and the
// program would run without ranks.
int Fail(const std::string& sentence) {
  setenv(environment::kStep, environment::kStepTasks, 1);
  setenv(environment::kTaskError, sentence.c_str(), 1);
  slurm_error("muster: %s", sentence.c_str());
  return -1;
}

// Reads until the empty line, end of file, or the deadline. Returns false with a reason.
bool ReadAnswer(int descriptor, std::string* answer, std::string* reason) {
  auto deadline = std::chrono::steady_clock::now() + kHostReadyTimeout;
  while (answer->size() < kAnswerBytesMax) {
    auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0) {
      *reason = "the host did not answer within 30 s";
      return false;
    }
    pollfd wait{descriptor, POLLIN, 0};
    int ready = poll(&wait, 1, static_cast<int>(left.count()));
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) continue;
    char buffer[4096];
    ssize_t count = read(descriptor, buffer, sizeof(buffer));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) {
      *reason = "the host ended before it was ready; its own message stands above";
      return false;
    }
    answer->append(buffer, static_cast<std::size_t>(count));
    if (answer->size() >= 2 && answer->compare(answer->size() - 2, 2, "\n\n") == 0) return true;
  }
  *reason = "the host's answer is longer than 1 MiB";
  return false;
}

// "NAME=VALUE" lines become variables of srun, and so of its tasks. Only our own names are taken.
void TakeVariables(const std::string& answer) {
  std::size_t start = 0;
  while (start < answer.size()) {
    std::size_t end = answer.find('\n', start);
    std::string line = answer.substr(start, end - start);
    start = end == std::string::npos ? answer.size() : end + 1;
    std::size_t equals = line.find('=');
    if (equals == std::string::npos || line.compare(0, 7, "MUSTER_") != 0) continue;
    setenv(line.substr(0, equals).c_str(), line.c_str() + equals + 1, 1);
  }
}

// Starts the program with the ready descriptor as 3, stdin from /dev/null, signals as a fresh
// process has them, in a group of its own: Ctrl-C is srun's to pass on.
int Spawn(const std::vector<std::string>& arguments, int ready_descriptor, pid_t* pid) {
  std::vector<char*> argv;
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, ready_descriptor, kReadyDescriptor);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none;
  sigemptyset(&none);
  sigset_t all;
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(
      &attributes,
      static_cast<short>(POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP));
  int error = posix_spawn(pid, argv[0], &actions, &attributes, argv.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  return error;
}

template <typename T>
std::string Item(spank_t spank, spank_item_t item) {
  T value = 0;
  if (spank_get_item(spank, item, &value) != ESPANK_SUCCESS) return "";
  return std::to_string(value);
}

}  // namespace

int StartHost(spank_t spank) {
  const char* step = getenv(environment::kStep);
  if (step != nullptr && std::strcmp(step, environment::kStepAgents) == 0) return 0;
  const char* variable = getenv(environment::kEnabled);
  std::string list = variable != nullptr ? variable : "";
  if (Option().given && list != "0") list = Option().list.empty() ? "1" : Option().list;
  Wanted wanted = ParseOptions(list);
  if (!wanted.on) return 0;
  if (!wanted.problem.empty()) return Fail(wanted.problem);

  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return Fail(std::string("pipe: ") + std::strerror(errno));
  std::vector<std::string> arguments = {
      ProgramPath(),
      "host",
      "--from-srun",
      "--ready-fd=" + std::to_string(kReadyDescriptor),
      "--job=" + Item<std::uint32_t>(spank, S_JOB_ID),
      "--step=" + Item<std::uint32_t>(spank, S_JOB_STEPID),
      "--step-nodes=" + Item<std::uint32_t>(spank, S_JOB_NNODES),
      "--step-tasks=" + Item<std::uint32_t>(spank, S_JOB_TOTAL_TASK_COUNT)};
  arguments.insert(arguments.end(), wanted.arguments.begin(), wanted.arguments.end());
  // dup2 onto itself would leave close-on-exec set.
  if (ends[1] == kReadyDescriptor) {
    int moved = fcntl(ends[1], F_DUPFD_CLOEXEC, kReadyDescriptor + 1);
    close(ends[1]);
    ends[1] = moved;
  }
  pid_t pid = 0;
  int error = Spawn(arguments, ends[1], &pid);
  close(ends[1]);
  if (error != 0) {
    close(ends[0]);
    return Fail("cannot start " + ProgramPath() + ": " + std::strerror(error) +
                "; set muster=PATH in plugstack.conf");
  }
  std::string answer;
  std::string reason;
  bool ready = ReadAnswer(ends[0], &answer, &reason);
  close(ends[0]);
  if (!ready) {
    kill(pid, SIGTERM);
    return Fail(reason);
  }
  TakeVariables(answer);
  setenv(environment::kStep, environment::kStepTasks, 1);
  return 0;
}

}  // namespace muster::spank
