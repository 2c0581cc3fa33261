#include "launcher/agent/keeper.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "common/log.h"
#include "common/text.h"
#include "launcher/agent/agent.h"
#include "launcher/agent/join_secret.h"
#include "launcher/agent/node_lock.h"
#include "launcher/agent/process_tree.h"
#include "proto/environment.h"

extern char** environ;

namespace muster::agent {
namespace {

// A supervisor that lives shorter has a lasting reason to die.
constexpr Duration kQuick = std::chrono::seconds(10);
constexpr int kQuickDeathsMax = 3;
// Processes that KILL does not end within this time hang in the kernel.
constexpr Duration kKillLimit = std::chrono::seconds(10);
// The supervisor's end of the socket.
constexpr int kSupervisorSocket = 3;

std::string DescribeEnd(int status) {
  if (WIFSIGNALED(status)) {
    const int number = WTERMSIG(status);
    return Concat("signal ", number, " (", strsignal(number), ")");
  }
  return Concat("exit code ", WEXITSTATUS(status), " without a last word");
}

// Whoever starts without them would take 0, 1 or 2 for a pipe or a socket.
void OpenStandardDescriptors() {
  int descriptor = open("/dev/null", O_RDWR);
  while (descriptor >= 0 && descriptor <= 2) descriptor = open("/dev/null", O_RDWR);
  if (descriptor > 2) close(descriptor);
}

bool IsStop(int signal) { return signal == SIGTERM || signal == SIGINT || signal == SIGHUP; }

}  // namespace

sigset_t KeeperSignals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGCHLD}) {
    sigaddset(&set, number);
  }
  return set;
}

Keeper::Keeper(std::string secret, SupervisorArguments arguments, std::string name)
    : secret_(std::move(secret)), arguments_(std::move(arguments)), name_(std::move(name)) {}

Keeper::~Keeper() { Wipe(&secret_); }

Status Keeper::Start() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    return FromErrno(errno, "cannot make the supervisor's socket");
  }
  socket_ = Descriptor(ends[0]);
  const Descriptor theirs(ends[1]);
  arguments_.socket = kSupervisorSocket;
  arguments_.keeper = getpid();
  std::vector<std::string> words = {"muster", "agent-supervisor"};
  for (std::string& word : ToArguments(arguments_)) words.push_back(std::move(word));
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);

  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&actions);
  posix_spawnattr_init(&attributes);
  posix_spawn_file_actions_adddup2(&actions, theirs.get(), kSupervisorSocket);
  // A session of its own: signals to the keeper's process group come through the keeper only.
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID);
  const int error =
      posix_spawn(&supervisor_, "/proc/self/exe", &actions, &attributes, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  if (error != 0) return FromErrno(error, "cannot start the agent's supervisor");
  std::string line = secret_ + "\n";
  const Status status = WriteAll(socket_.get(), line);
  Wipe(&line);
  return status;
}

std::string Keeper::ReadFarewell() {
  std::string text;
  char buffer[256];
  while (true) {
    const ssize_t count = recv(socket_.get(), buffer, sizeof(buffer), MSG_DONTWAIT);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return text;
    text.append(buffer, static_cast<std::size_t>(count));
  }
}

Keeper::End Keeper::WaitForSupervisor() {
  const sigset_t signals = KeeperSignals();
  while (true) {
    const int number = sigwaitinfo(&signals, nullptr);
    if (number < 0) continue;
    if (number != SIGCHLD) {
      stop_passed_on_ = stop_passed_on_ || IsStop(number);
      kill(supervisor_, number);  // not reaped yet, so the number is still its own
      continue;
    }
    while (true) {
      int status = 0;
      const pid_t pid = waitpid(-1, &status, WNOHANG);
      if (pid <= 0) break;
      if (pid != supervisor_) continue;  // an orphan
      const std::string farewell = ReadFarewell();
      End end;
      end.orderly = WIFEXITED(status) && farewell == Concat("exit ", WEXITSTATUS(status), "\n");
      end.code = end.orderly ? WEXITSTATUS(status) : 1;
      end.how = DescribeEnd(status);
      return end;
    }
  }
}

int Keeper::Run() {
  int quick_deaths = 0;
  while (true) {
    const TimePoint started = SteadyNow();
    if (const Status status = Start(); !status.ok()) {
      LogError(Concat("agent ", name_, ": ", status.message()));
      if (supervisor_ == 0) return 1;
    }
    const End end = WaitForSupervisor();
    supervisor_ = 0;
    // Also after an orderly end: nothing may be left behind on the node.
    const std::vector<ProcessInfo> left = KillDescendants(getpid(), kKillLimit);
    if (!left.empty()) {
      LogError(Concat("agent ", name_, ": still there after KILL: ", DescribeProcesses(left)));
    }
    if (end.orderly) return end.code;
    if (stop_passed_on_) {
      LogWarning(Concat("agent ", name_, ": the supervisor died of ", end.how,
                        " while it was told to end"));
      return 128 + SIGTERM;
    }
    const bool quick = SteadyNow() - started < kQuick;
    quick_deaths = quick ? quick_deaths + 1 : 0;
    if (quick_deaths >= kQuickDeathsMax) {
      LogError(Concat("agent ", name_, ": the supervisor died ", quick_deaths, " times within ",
                      DescribeDuration(kQuick), " of its start, last of ", end.how, "; given up"));
      return 1;
    }
    LogWarning(Concat("agent ", name_, ": the supervisor died of ", end.how,
                      "; its workers were ended and a new one starts"));
  }
}

int AgentMain(std::vector<std::string> program) {
  std::string secret = TakeJoinSecret();  // before anything else
  OpenStandardDescriptors();
  const sigset_t signals = KeeperSignals();
  sigprocmask(SIG_BLOCK, &signals, nullptr);
  signal(SIGPIPE, SIG_IGN);
  const auto fail = [](int code, const Status& status) {
    LogError(status.message());
    return code;
  };
  if (secret.empty()) {
    return fail(exit_code::kUsage,
                InvalidArgument(Concat(environment::kJoinSecret,
                                       " is not set: `muster agent` is started by `muster run` or "
                                       "by the plugin, not by hand")));
  }
  const Environment environment = CurrentEnvironment();
  const Result<Options> options = OptionsFromEnvironment(environment, program);
  if (!options.ok()) return fail(exit_code::kUsage, options.status());
  const Result<Place> place = OwnPlace(environment, *options);
  if (!place.ok()) return fail(exit_code::kUsage, place.status());
  if (prctl(PR_SET_CHILD_SUBREAPER, 1) != 0) {
    return fail(1, FromErrno(errno, "this kernel has no subreapers"));
  }
  const protocol::AgentKey key{place->node, place->step_id, place->task_id};
  Result<std::string> user_folder = UserFolder();
  if (!user_folder.ok()) return fail(1, user_folder.status());
  const Result<std::unique_ptr<NodeLock>> lock = NodeLock::Take(*user_folder, options->run_id, key);
  if (!lock.ok()) return fail(exit_code::kCouldNotForm, lock.status());
  const Result<Folders> folders = MakeAgentFolders(*options, environment, *place, getpid());
  if (!folders.ok()) return fail(1, folders.status());
  SupervisorArguments arguments;
  arguments.grandparent = getppid();
  arguments.folders = *folders;
  arguments.program = std::move(program);
  int code = 1;
  {
    Keeper keeper(std::move(secret), std::move(arguments), protocol::ToString(key));
    code = keeper.Run();
  }
  RemoveAgentFolders(*folders);
  return code;
}

}  // namespace muster::agent
