#include "launcher/agent/node_check.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <mutex>
#include <thread>

#include "common/text.h"
#include "launcher/agent/exec_stage.h"
#include "launcher/agent/files.h"
#include "proto/environment.h"

namespace muster::agent {
namespace {

constexpr Duration kTokenPause = std::chrono::milliseconds(100);

std::string OnNode(const NodeCheck& check) { return Concat(" on node ", check.node); }

class Checker {
 public:
  explicit Checker(const NodeCheck& check) : check_(check) {}

  NodeFindings Run() {
    // The state folder first: where it is another one, so may all else be.
    StateFolder();
    if (!findings_.problem) LogFolder();
    if (!findings_.problem) WorkingFolder();
    if (!findings_.problem) Program();
    return std::move(findings_);
  }

 private:
  void Problem(int exit_code, std::string text) {
    findings_.problem = NodeProblem{exit_code, std::move(text)};
  }
  void Warn(std::string text) { findings_.warnings.push_back(std::move(text)); }

  void StateFolder() {
    if (check_.state_token.empty()) return;
    const std::string file = TokenFile(check_.state_dir, check_.state_token);
    const TimePoint until = SteadyNow() + check_.token_patience;
    int error = Readable(file);
    while ((error == ENOENT || error == ENOTDIR) && SteadyNow() < until) {
      std::this_thread::sleep_for(kTokenPause);
      error = Readable(file);
    }
    if (error == 0) return;
    if (error == ENOENT || error == ENOTDIR) {
      return Problem(exit_code::kUsage,
                     Concat("the state folder ", check_.state_dir, OnNode(check_),
                            " is not the one of the run's host: what the host wrote into it is not "
                            "there; give a folder that all nodes share with --state-dir"));
    }
    Cannot("the state folder", check_.state_dir, "read", error, "--state-dir");
  }

  static int Readable(const std::string& file) {
    const Descriptor opened(open(file.c_str(), O_RDONLY | O_CLOEXEC));
    char byte = 0;
    return opened.valid() && read(opened.get(), &byte, 1) >= 0 ? 0 : errno;
  }

  void LogFolder() {
    if (check_.log_dir.empty()) return;
    const std::string file =
        Concat(check_.log_dir, "/.probe-", check_.node, "-", check_.process, "-", getpid());
    const Descriptor made(open(file.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    const int error = made.valid() ? 0 : errno;
    if (error == 0) {
      unlink(file.c_str());
    } else {
      const bool own = !check_.log_dir.starts_with(check_.state_dir + "/");
      Cannot("the log folder", check_.log_dir, "written", error, own ? "--log-dir" : "--state-dir");
    }
  }

  void Cannot(std::string_view what, const std::string& folder, std::string_view done, int error,
              std::string_view option) {
    const std::string text =
        Concat(what, " ", folder, " cannot be ", done, OnNode(check_), ": ", std::strerror(error));
    if (IsCertain(error)) {
      Problem(
          exit_code::kUsage,
          Concat(text, "; give a folder that all nodes share and you may write to with ", option));
    } else {
      Warn(text);
    }
  }

  void WorkingFolder() {
    const std::string& folder = check_.working_dir;
    if (folder.empty() || access(folder.c_str(), X_OK) == 0) return;
    const int error = errno;
    std::string text = Concat("cannot enter the working folder ", folder, OnNode(check_), ": ",
                              std::strerror(error));
    if (!IsCertain(error)) return Warn(std::move(text));
    Problem(kProgramNotRunnable, Concat(text, "; start the run in a folder that all nodes share"));
  }

  void Program() {
    const Result<std::string> file =
        FindProgram(check_.program, check_.path, check_.node, check_.working_dir);
    const Status status =
        file.ok() ? CheckInterpreter(*file, check_.path, check_.node, check_.working_dir)
                  : file.status();
    if (status.ok()) return;
    if (status.code() == StatusCode::kUnavailable) return Warn(status.message());
    Problem(status.code() == StatusCode::kNotFound ? kProgramNotFound : kProgramNotRunnable,
            status.message());
  }

  const NodeCheck& check_;
  NodeFindings findings_;
};

// What the thread and its waiter share; the last one to leave frees it.
struct Waited {
  explicit Waited(NodeCheck what) : check(std::move(what)), done(eventfd(0, EFD_CLOEXEC)) {}
  const NodeCheck check;
  Descriptor done;
  std::mutex mutex;
  NodeFindings findings;
};

void RunWaited(Waited& waited) {
  NodeFindings findings = CheckNode(waited.check);
  const std::lock_guard lock(waited.mutex);
  waited.findings = std::move(findings);
  const std::uint64_t one = 1;
  if (write(waited.done.get(), &one, sizeof(one)) < 0) return;
}

}  // namespace

NodeCheck NodeCheckOf(const Options& options, const Environment& environment, const Place& place) {
  NodeCheck check;
  check.node = place.node;
  check.process = std::to_string(place.task_id);
  check.working_dir = options.working_dir;
  check.program = options.program.empty() ? "" : options.program.front();
  if (const auto set = options.set_environment.find("PATH"); set != options.set_environment.end()) {
    check.path = set->second;
  } else {
    const auto own = environment.find("PATH");
    check.path = own == environment.end() ? kDefaultPath : own->second;
  }
  check.state_dir = options.state_dir;
  check.state_token = options.state_token;
  check.log_dir = options.log_dir;
  return check;
}

std::string TokenFile(const std::string& state_dir, const std::string& token) {
  return Concat(state_dir, "/.shared-", token);
}

NodeFindings CheckNode(const NodeCheck& check) { return Checker(check).Run(); }

NodeFindings CheckNodeWithin(const NodeCheck& check, Duration limit,
                             const std::vector<int>& interrupts) {
  auto waited = std::make_shared<Waited>(check);
  std::thread([waited] { RunWaited(*waited); }).detach();
  std::vector<pollfd> watched = {{waited->done.get(), POLLIN, 0}};
  for (const int descriptor : interrupts) watched.push_back({descriptor, POLLIN | POLLRDHUP, 0});
  const TimePoint until = SteadyNow() + limit;
  while (true) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - SteadyNow()).count();
    const int count = poll(watched.data(), watched.size(), static_cast<int>(std::max(left, 0L)));
    if (count < 0 && errno == EINTR) continue;
    if (watched[0].revents != 0) {
      const std::lock_guard lock(waited->mutex);
      return std::move(waited->findings);
    }
    NodeFindings unknown;
    if (count > 0) {
      unknown.warnings.push_back(Concat("the check of node ", check.node, " was cut short"));
    } else if (left <= 0) {
      unknown.warnings.push_back(Concat("the folders of the run gave no answer on node ",
                                        check.node, " within ", DescribeDuration(limit),
                                        " (state folder ", check.state_dir, ", program ",
                                        check.program, "); it takes part all the same"));
    } else {
      continue;
    }
    return unknown;
  }
}

}  // namespace muster::agent
