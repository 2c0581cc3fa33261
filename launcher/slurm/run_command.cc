#include "launcher/slurm/run_command.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "common/text.h"

namespace muster::slurm {
namespace {

using std::chrono::milliseconds;

// A killed child is gone in less, unless the kernel holds it; then it is left to init.
constexpr Duration kReapPatience = std::chrono::seconds(2);

class Descriptor {
 public:
  explicit Descriptor(int number = -1) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    Close();
    number_ = std::exchange(other.number_, -1);
    return *this;
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() { Close(); }
  int get() const { return number_; }
  bool open() const { return number_ >= 0; }
  void Close() {
    if (number_ >= 0) close(number_);
    number_ = -1;
  }

 private:
  int number_;
};

struct Pipe {
  Descriptor read;
  Descriptor write;
};

Result<Pipe> MakePipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return FromErrno(errno, "pipe for a Slurm command");
  return Pipe{Descriptor(ends[0]), Descriptor(ends[1])};
}

// posix_spawn's two lists, freed on every way out.
class SpawnSettings {
 public:
  SpawnSettings() {
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
  }
  ~SpawnSettings() {
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
  }
  SpawnSettings(const SpawnSettings&) = delete;
  SpawnSettings& operator=(const SpawnSettings&) = delete;

  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
};

std::vector<char*> Pointers(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

Result<pid_t> Spawn(const Command& command, int input, int output, int error) {
  SpawnSettings settings;
  posix_spawn_file_actions_adddup2(&settings.actions, input, STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&settings.actions, output, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&settings.actions, error, STDERR_FILENO);
  if (!command.directory.empty()) {
    posix_spawn_file_actions_addchdir_np(&settings.actions, command.directory.c_str());
  }
  sigset_t blocked;
  sigset_t defaults;
  sigemptyset(&blocked);
  for (const int number : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&blocked, number);
  sigemptyset(&defaults);
  for (const int number : {SIGPIPE, SIGCHLD, SIGUSR1, SIGUSR2, SIGALRM}) {
    sigaddset(&defaults, number);
  }
  posix_spawnattr_setsigmask(&settings.attributes, &blocked);
  posix_spawnattr_setsigdefault(&settings.attributes, &defaults);
  posix_spawnattr_setflags(&settings.attributes,
                           POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  std::vector<std::string> arguments = command.arguments;
  std::vector<std::string> entries = EnvironmentEntries(command.environment);
  pid_t child = -1;
  const int failed =
      posix_spawn(&child, arguments.front().c_str(), &settings.actions, &settings.attributes,
                  Pointers(arguments).data(), Pointers(entries).data());
  if (failed != 0) return FromErrno(failed, Concat("cannot start ", command.arguments.front()));
  return child;
}

// Writes what the pipe takes. A child that closed its stdin is not an error: it has read enough.
void FeedInput(Descriptor& pipe, std::string_view& rest) {
  const ssize_t count = write(pipe.get(), rest.data(), rest.size());
  if (count > 0) rest.remove_prefix(static_cast<std::size_t>(count));
  if (rest.empty() || (count < 0 && errno != EAGAIN && errno != EINTR)) pipe.Close();
}

void ReadSome(Descriptor& pipe, std::string& out) {
  std::array<char, 65536> buffer;
  const ssize_t count = read(pipe.get(), buffer.data(), buffer.size());
  if (count > 0) {
    out.append(buffer.data(), static_cast<std::size_t>(count));
  } else if (count == 0 || (errno != EINTR && errno != EAGAIN)) {
    pipe.Close();
  }
}

struct Streams {
  Descriptor input;
  Descriptor output;
  Descriptor error;
};

// Moves bytes until the child has closed its outputs.
Status Exchange(const Command& command, Streams& streams, TimePoint end, CommandResult& result) {
  std::string_view rest = command.input;
  while (streams.output.open() || streams.error.open()) {
    const Duration left = end - SteadyNow();
    if (left <= Duration::zero()) return DeadlineExceeded("");
    std::array<pollfd, 3> polls = {{{.fd = streams.output.get(), .events = POLLIN, .revents = 0},
                                    {.fd = streams.error.get(), .events = POLLIN, .revents = 0},
                                    {.fd = streams.input.get(), .events = POLLOUT, .revents = 0}}};
    const auto wait = std::chrono::ceil<milliseconds>(left).count();
    if (poll(polls.data(), polls.size(), static_cast<int>(std::min<long>(wait, 60000))) < 0) {
      if (errno == EINTR) continue;
      return FromErrno(errno, "poll on a Slurm command");
    }
    if (polls[0].revents != 0) ReadSome(streams.output, result.output);
    if (polls[1].revents != 0) ReadSome(streams.error, result.error_output);
    if (polls[2].revents != 0) FeedInput(streams.input, rest);
    if (result.output.size() + result.error_output.size() > kMaxToolOutput) {
      return ResourceExhausted("printed more than 32 MiB");
    }
  }
  return OkStatus();
}

// True and the raw wait status once the child is reaped.
bool Reap(pid_t child, TimePoint end, int& wait_status) {
  Duration pause = milliseconds(1);
  while (true) {
    const pid_t reaped = waitpid(child, &wait_status, WNOHANG);
    if (reaped == child) return true;
    if (reaped < 0 && errno != EINTR) {
      wait_status = 0;  // somebody else reaped it: its output is all there is
      return true;
    }
    if (SteadyNow() >= end) return false;
    const timespec wait{.tv_sec = 0, .tv_nsec = static_cast<long>(pause.count())};
    nanosleep(&wait, nullptr);
    pause = std::min<Duration>(pause * 2, milliseconds(20));
  }
}

std::string Describe(const Command& command) { return Join(command.arguments, " ").substr(0, 200); }

}  // namespace

Result<CommandResult> RunCommand(const Command& command) {
  MUSTER_CHECK(!command.arguments.empty(), "a command needs a program");
  const TimePoint end = SteadyNow() + command.deadline;
  MUSTER_ASSIGN_OR_RETURN(Pipe input, MakePipe());
  MUSTER_ASSIGN_OR_RETURN(Pipe output, MakePipe());
  MUSTER_ASSIGN_OR_RETURN(Pipe error, MakePipe());
  MUSTER_ASSIGN_OR_RETURN(const pid_t child,
                          Spawn(command, input.read.get(), output.write.get(), error.write.get()));
  input.read.Close();
  output.write.Close();
  error.write.Close();
  for (const int number : {input.write.get(), output.read.get(), error.read.get()}) {
    fcntl(number, F_SETFL, O_NONBLOCK);
  }
  Streams streams{std::move(input.write), std::move(output.read), std::move(error.read)};
  if (command.input.empty()) streams.input.Close();
  // A child that ends without reading its stdin must not end us.
  sigset_t pipe_signal;
  sigset_t before;
  sigemptyset(&pipe_signal);
  sigaddset(&pipe_signal, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &pipe_signal, &before);
  CommandResult result;
  Status status = Exchange(command, streams, end, result);
  const timespec now{.tv_sec = 0, .tv_nsec = 0};
  if (sigismember(&before, SIGPIPE) == 0) sigtimedwait(&pipe_signal, nullptr, &now);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  int wait_status = 0;
  if (status.ok() && Reap(child, end, wait_status)) {
    result.exit_code =
        WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
    return result;
  }
  kill(-child, SIGKILL);
  Reap(child, SteadyNow() + kReapPatience, wait_status);
  if (status.ok() || status.code() == StatusCode::kDeadlineExceeded) {
    return DeadlineExceeded(Concat(Describe(command), " did not end within ",
                                   DescribeDuration(command.deadline),
                                   "; it may have taken effect all the same"));
  }
  return status.With(Describe(command));
}

Result<std::string> FindTool(const std::string& name, const EnvironmentMap& environment,
                             const std::string& directory) {
  std::vector<std::string> folders;
  if (!directory.empty()) {
    folders.push_back(directory);
  } else {
    for (const std::string_view folder : Split(Lookup(environment, "PATH"), ':')) {
      if (folder.starts_with('/')) folders.emplace_back(folder);
    }
    for (const char* folder : {"/usr/bin", "/usr/local/bin", "/opt/slurm/bin",
                               "/usr/local/slurm/bin", "/cm/shared/apps/slurm/current/bin"}) {
      if (std::find(folders.begin(), folders.end(), folder) == folders.end()) {
        folders.emplace_back(folder);
      }
    }
  }
  for (const std::string& folder : folders) {
    std::string path = folder + "/" + name;
    if (access(path.c_str(), X_OK) == 0) return path;
  }
  return NotFound(Concat("no program ", name, " in ", Join(folders, ":"),
                         "; is this host part of a Slurm cluster?"));
}

}  // namespace muster::slurm
