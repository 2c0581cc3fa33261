// rendezvousd --options-fd N: the rendezvous daemon of one run, started and watched by its host.

#include <fcntl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "common/log.h"
#include "common/text.h"
#include "rendezvousd/protocol/start_options.h"
#include "rendezvousd/server/daemon.h"
#include "rendezvousd/server/exit_code.h"
#include "rendezvousd/server/recovery.h"

#ifndef MUSTER_VERSION
#error "MUSTER_VERSION is the project's version"
#endif

namespace muster::server {
namespace {

constexpr std::string_view kUsage =
    "usage: rendezvousd --options-fd N   serve one run; start options as JSON from descriptor N\n"
    "       rendezvousd --replay FILE    tell what a journal holds\n"
    "       rendezvousd --version\n";
// Several thousand node names with their counts; more is not a run's options.
constexpr std::size_t kOptionsBytesMax = std::size_t{16} << 20U;
// A stop that takes longer than this is not clean any more.
constexpr auto kStopTime = std::chrono::seconds(10);

void Print(std::FILE* file, std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), file);
}

Result<std::string> ReadToEnd(int fd) {
  std::string text;
  std::string piece(std::size_t{64} << 10U, '\0');
  while (true) {
    const ssize_t got = read(fd, piece.data(), piece.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return FromErrno(errno, Concat("cannot read the options from descriptor ", fd));
    if (got == 0) break;
    text.append(piece, 0, static_cast<std::size_t>(got));
    if (text.size() > kOptionsBytesMax) return InvalidArgument("the start options are too long");
  }
  close(fd);
  return text;
}

// Waits for the host's TERM and watches the host. A daemon without its host has nobody to give the
// verdict to and cannot be adopted by another host, so it ends. Polled, not PR_SET_PDEATHSIG: that
// is sent when the *thread* that started us ends.
class Guard {
 public:
  explicit Guard(StopHandle* stop) : stop_(stop), thread_([this] { Run(); }) {}
  ~Guard() {
    ending_ = true;
    thread_.join();
  }
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;

  // Before any thread starts: they all inherit it.
  static void BlockSignals() {
    std::signal(SIGPIPE, SIG_IGN);
    std::signal(SIGXFSZ, SIG_IGN);  // a full journal is an error of write()
    // The host decides what an interrupt from the terminal means.
    std::signal(SIGINT, SIG_IGN);
    std::signal(SIGHUP, SIG_IGN);
    const sigset_t set = Term();
    pthread_sigmask(SIG_BLOCK, &set, nullptr);
  }

 private:
  static sigset_t Term() {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    return set;
  }
  void Run() {
    const sigset_t set = Term();
    const timespec interval{0, 200'000'000};
    while (!ending_) {
      // Slurm's TERM at scancel, time limit and requeue reaches every process of the batch step:
      // the host decides what it means, and needs its daemon to end the run in order.
      siginfo_t info{};
      if (sigtimedwait(&set, &info, &interval) == SIGTERM && info.si_pid == host_) {
        Stop("SIGTERM");
      } else if (getppid() != host_) {
        Stop("the host that started it is gone");
      }
      if (asked_ && SteadyNow() - asked_at_ > kStopTime) {
        LogError("rendezvousd did not stop in time and is cut off");
        _exit(exit_code::kStopped);
      }
    }
  }
  void Stop(const char* reason) {
    if (asked_) return;
    asked_ = true;
    asked_at_ = SteadyNow();
    stop_->Stop(reason);
  }

  StopHandle* const stop_;
  const pid_t host_ = getppid();
  std::atomic<bool> ending_{false};
  bool asked_ = false;
  TimePoint asked_at_;
  std::thread thread_;
};

int Serve(std::string_view descriptor) {
  const auto fd = ParseInteger<int>("--options-fd", descriptor, 0);
  if (!fd.ok()) {
    LogError(fd.status().message());
    return exit_code::kUsage;
  }
  Guard::BlockSignals();
  auto text = ReadToEnd(*fd);
  auto options = text.ok() ? protocol::StartOptionsFromJson(*text)
                           : Result<protocol::StartOptions>(text.status());
  if (!options.ok()) {
    LogError(Concat("rendezvousd: ", options.status().message()));
    return exit_code::kUsage;
  }
  if (options->config.version != MUSTER_VERSION) {
    LogError(Concat("rendezvousd is version " MUSTER_VERSION ", the run was started by version ",
                    options->config.version, ": use one installation"));
    return exit_code::kUsage;
  }
  fcntl(options->listen_fd, F_SETFD, FD_CLOEXEC);
  StopHandle stop;
  const Guard guard(&stop);
  return RunDaemon(*options, &stop);
}

int Main(const std::vector<std::string_view>& arguments) {
  if (arguments.size() == 1 && arguments[0] == "--version") {
    Print(stdout, "rendezvousd " MUSTER_VERSION "\n");
    return exit_code::kDone;
  }
  if (arguments.size() == 2 && arguments[0] == "--options-fd") return Serve(arguments[1]);
  if (arguments.size() == 2 && arguments[0] == "--replay") {
    const Status status = PrintReplay(std::string(arguments[1]),
                                      [](const std::string& line) { Print(stdout, line + "\n"); });
    if (status.ok()) return exit_code::kDone;
    LogError(status.message());
    return exit_code::kJournal;
  }
  Print(stderr, kUsage);
  return exit_code::kUsage;
}

}  // namespace
}  // namespace muster::server

int main(int argc, char** argv) { return muster::server::Main({argv + 1, argv + argc}); }
