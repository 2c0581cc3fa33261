#include "launcher/host/spawn.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "common/check.h"
#include "common/text.h"

namespace muster::host {
namespace {

std::vector<char*> Pointers(const std::vector<std::string>& texts) {
  std::vector<char*> out;
  for (const std::string& text : texts) out.push_back(const_cast<char*>(text.c_str()));
  out.push_back(nullptr);
  return out;
}

// Frees what posix_spawn's two descriptions hold.
struct Description {
  posix_spawn_file_actions_t actions{};
  posix_spawnattr_t attributes{};
  Description() {
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
  }
  ~Description() {
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
  }
  Description(const Description&) = delete;
  Description& operator=(const Description&) = delete;
};

Result<pid_t> Spawn(const SpawnRequest& request) {
  MUSTER_CHECK(!request.argv.empty(), "a program to start");
  Description description;
  if (request.close_stdin) {
    posix_spawn_file_actions_addopen(&description.actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  }
  for (const int descriptor : request.descriptors) {
    // Onto itself: the child's copy loses close-on-exec.
    posix_spawn_file_actions_adddup2(&description.actions, descriptor, descriptor);
  }
  sigset_t none;
  sigset_t all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&description.attributes, &none);
  posix_spawnattr_setsigdefault(&description.attributes, &all);
  posix_spawnattr_setpgroup(&description.attributes, 0);
  const int group = request.new_session ? POSIX_SPAWN_SETSID : POSIX_SPAWN_SETPGROUP;
  posix_spawnattr_setflags(
      &description.attributes,
      static_cast<short>(POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | group));
  const std::vector<char*> argv = Pointers(request.argv);
  const std::vector<char*> environment = Pointers(request.environment);
  pid_t pid = 0;
  const std::string& path = request.path.empty() ? request.argv[0] : request.path;
  const int error = posix_spawn(&pid, path.c_str(), &description.actions, &description.attributes,
                                argv.data(), environment.data());
  if (error != 0) return FromErrno(error, Concat("cannot start ", path));
  return pid;
}

}  // namespace

Child::~Child() {
  if (loop_ != nullptr && watch_ != 0) loop_->Unwatch(watch_);
}

Status Child::Start(agent::EventLoop* loop, const SpawnRequest& request,
                    std::function<void(int)> on_exit) {
  MUSTER_CHECK(!running(), "one process at a time");
  MUSTER_ASSIGN_OR_RETURN(const pid_t pid, Spawn(request));
  pidfd_ = agent::Descriptor(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  if (!pidfd_.valid()) {
    const int error = errno;
    kill(pid, SIGKILL);  // ours and not reaped yet: the number cannot be a stranger's
    waitpid(pid, nullptr, 0);
    return FromErrno(error, "cannot watch a child (pidfd_open needs Linux 5.3)");
  }
  loop_ = loop;
  pid_ = pid;
  on_exit_ = std::move(on_exit);
  watch_ = loop_->WatchReadable(pidfd_.get(), [this] { OnReadable(); });
  return OkStatus();
}

void Child::OnReadable() {
  int wait_status = 0;
  const pid_t reaped = waitpid(pid_, &wait_status, WNOHANG);
  if (reaped == 0) return;
  loop_->Unwatch(watch_);
  watch_ = 0;
  pidfd_.Close();
  pid_ = 0;
  const std::function<void(int)> done = std::move(on_exit_);
  done(wait_status);
}

void Child::Signal(int number) const {
  if (running()) syscall(SYS_pidfd_send_signal, pidfd_.get(), number, nullptr, 0);
}

void Child::SignalGroup(int number) const {
  // Not reaped yet, so its number is still its group's.
  if (running()) kill(-pid_, number);
}

std::string DescribeWaitStatus(int wait_status) {
  if (WIFSIGNALED(wait_status)) {
    return Concat("signal ", WTERMSIG(wait_status), " (", strsignal(WTERMSIG(wait_status)), ")");
  }
  return Concat("exit code ", WEXITSTATUS(wait_status));
}

int ShellCode(int wait_status) {
  return WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
}

Result<agent::Descriptor> MemoryFile(const char* name, std::string_view bytes) {
  agent::Descriptor file(memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file.valid()) return FromErrno(errno, "cannot make a file in memory");
  MUSTER_RETURN_IF_ERROR(agent::WriteAll(file.get(), bytes));
  fcntl(file.get(), F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL);
  if (lseek(file.get(), 0, SEEK_SET) != 0) return FromErrno(errno, "cannot rewind");
  return file;
}

}  // namespace muster::host
