#include "launcher/host/daemon_keeper.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <utility>

#include "common/log.h"
#include "common/text.h"

namespace muster::host {
namespace {

// A fault that repeats at once is in the journal or the machine: the next attempt must take over.
constexpr std::size_t kTries = 3;
constexpr Duration kTriesWithin = std::chrono::seconds(10);
// It flushes its files at the end; a stalled shared folder must not hold the job.
constexpr Duration kStopGrace = std::chrono::seconds(5);

// sysexits' usage, data and system errors: it would end so again.
bool IsFinal(int code) { return code == 64 || code == 65 || code == 71; }

bool IsProgram(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(path, ignored) && access(path.c_str(), X_OK) == 0;
}

}  // namespace

Result<std::string> FindDaemon(const std::string& from_environment) {
  if (!from_environment.empty()) {
    if (IsProgram(from_environment)) return from_environment;
    return NotFound(Concat("MUSTER_RENDEZVOUSD names ", from_environment,
                           ", which is no program; unset it or correct it"));
  }
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return NotFound(Concat("cannot read /proc/self/exe: ", error.message()));
  std::string beside = (self.parent_path() / "rendezvousd").string();
  if (IsProgram(beside)) return beside;
  return NotFound(Concat("the daemon ", beside, " is missing or no program; install it beside ",
                         self.string(), " or set MUSTER_RENDEZVOUSD"));
}

DaemonKeeper::DaemonKeeper(agent::EventLoop* loop, std::string program,
                           std::vector<std::string> environment, protocol::StartOptions options,
                           const Listener* listener, Events events)
    : loop_(loop),
      program_(std::move(program)),
      environment_(std::move(environment)),
      options_(std::move(options)),
      listener_(listener),
      events_(std::move(events)) {
  options_.listen_fd = listener_->socket.get();
}

Status DaemonKeeper::Start() {
  // A fresh file each time: a read offset is shared between processes.
  MUSTER_ASSIGN_OR_RETURN(const agent::Descriptor file,
                          MemoryFile("muster-options", protocol::ToJson(options_)));
  SpawnRequest request;
  request.argv = {program_, "--options-fd", std::to_string(file.get())};
  request.environment = environment_;
  request.descriptors = {file.get(), listener_->socket.get()};
  return child_.Start(loop_, request, [this](int wait_status) { OnExit(wait_status); });
}

void DaemonKeeper::OnExit(int wait_status) {
  if (stopping_) {
    if (timer_ != 0) loop_->CancelTimer(timer_);
    return TellStopped();
  }
  const TimePoint now = SteadyNow();
  deaths_.push_back(now);
  while (now - deaths_.front() > kTriesWithin) deaths_.pop_front();
  const std::string how = DescribeWaitStatus(wait_status);
  if (WIFEXITED(wait_status) && IsFinal(WEXITSTATUS(wait_status))) {
    events_.given_up(
        Concat("the daemon ", program_, " ended with ", how, "; its own message stands above"));
    return;
  }
  if (deaths_.size() >= kTries) {
    events_.given_up(Concat("the daemon ", program_, " ended ", deaths_.size(), " times within ",
                            DescribeDuration(kTriesWithin), ", last with ", how));
    return;
  }
  LogWarning(
      Concat("the daemon ended with ", how, "; it starts again, workers notice nothing of it"));
  ++restarts_;
  if (const Status status = Start(); !status.ok()) {
    events_.given_up(Concat("the daemon cannot be started again: ", status.message()));
  }
}

void DaemonKeeper::TellStopped() {
  if (told_ || !stop_asked_) return;
  told_ = true;
  events_.stopped();
}

void DaemonKeeper::Stop(Duration patience) {
  if (stop_asked_) return;
  stopping_ = true;
  stop_asked_ = true;
  if (!child_.running()) {
    loop_->Post([this] { TellStopped(); });
    return;
  }
  timer_ = loop_->After(patience, [this] {
    child_.Signal(SIGTERM);
    timer_ = loop_->After(kStopGrace, [this] { child_.Signal(SIGKILL); });
  });
}

}  // namespace muster::host
