#include "launcher/agent/process_tree.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <set>
#include <sstream>
#include <thread>

#include "common/text.h"
#include "launcher/agent/files.h"

namespace muster::agent {
namespace {

std::optional<pid_t> PidOf(std::string_view text) {
  const Result<pid_t> pid = ParseInteger<pid_t>("pid", text, 1);
  return pid.ok() ? std::optional<pid_t>(*pid) : std::nullopt;
}

std::vector<std::string> Entries(const std::string& folder) {
  std::vector<std::string> names;
  DIR* const dir = opendir(folder.c_str());
  if (dir == nullptr) return names;
  while (const dirent* entry = readdir(dir)) names.emplace_back(entry->d_name);
  closedir(dir);
  return names;
}

// The children files name only the direct children of each thread: cheap on a crowded node.
bool HaveChildrenFiles() {
  static const bool have =
      access("/proc/self/task/self/children", R_OK) == 0 ||
      access(Concat("/proc/self/task/", getpid(), "/children").c_str(), R_OK) == 0;
  return have;
}

std::vector<pid_t> ChildrenByFiles(pid_t pid) {
  std::vector<pid_t> children;
  const std::string tasks = Concat("/proc/", pid, "/task");
  for (const std::string& thread : Entries(tasks)) {
    if (!PidOf(thread)) continue;
    const std::string text = ReadSmallFile(tasks + "/" + thread + "/children").value_or("");
    for (const std::string_view word : Split(text, ' ')) {
      if (const std::optional<pid_t> child = PidOf(Trim(word))) children.push_back(*child);
    }
  }
  return children;
}

std::map<pid_t, std::vector<pid_t>> ChildrenByScan() {
  std::map<pid_t, std::vector<pid_t>> children;
  for (const std::string& name : Entries("/proc")) {
    const std::optional<pid_t> pid = PidOf(name);
    if (!pid) continue;
    const std::optional<ProcessInfo> process = ReadProcess(*pid);
    if (process) children[process->parent].push_back(*pid);
  }
  return children;
}

void ReapChildren() {
  int status = 0;
  while (waitpid(-1, &status, WNOHANG) > 0) {
  }
}

}  // namespace

std::optional<ProcessInfo> ParseProcessStat(const std::string& text) {
  // The name stands in brackets and may hold anything: the last bracket ends it.
  const std::size_t open = text.find('(');
  const std::size_t close = text.rfind(')');
  if (open == std::string::npos || close == std::string::npos || close < open) return std::nullopt;
  const std::optional<pid_t> pid = PidOf(Trim(std::string_view(text).substr(0, open)));
  if (!pid) return std::nullopt;
  ProcessInfo process;
  process.pid = *pid;
  process.name = text.substr(open + 1, close - open - 1);
  std::istringstream rest(text.substr(close + 1));
  long long skipped = 0;
  long long group = 0;
  rest >> process.state >> process.parent >> group >> process.session;
  // Fields 7 to 21 lie between the session and the start time.
  for (int field = 7; field <= 21; ++field) rest >> skipped;
  rest >> process.start_time;
  if (!rest) return std::nullopt;
  return process;
}

std::optional<ProcessInfo> ReadProcess(pid_t pid) {
  const Result<std::string> text = ReadSmallFile(Concat("/proc/", pid, "/stat"));
  return text.ok() ? ParseProcessStat(*text) : std::nullopt;
}

std::vector<ProcessInfo> Descendants(pid_t root) {
  std::vector<ProcessInfo> found;
  std::set<pid_t> seen = {root};
  std::map<pid_t, std::vector<pid_t>> scanned;
  const bool by_files = HaveChildrenFiles();
  if (!by_files) scanned = ChildrenByScan();
  std::vector<pid_t> parents = {root};
  for (std::size_t at = 0; at < parents.size(); ++at) {
    const std::vector<pid_t> children =
        by_files ? ChildrenByFiles(parents[at]) : scanned[parents[at]];
    for (const pid_t child : children) {
      if (!seen.insert(child).second) continue;
      const std::optional<ProcessInfo> process = ReadProcess(child);
      if (!process) continue;
      found.push_back(*process);
      parents.push_back(child);
    }
  }
  return found;
}

bool SignalProcess(const ProcessInfo& process, int signal) {
  const int descriptor = static_cast<int>(syscall(SYS_pidfd_open, process.pid, 0));
  const std::optional<ProcessInfo> now = ReadProcess(process.pid);
  const bool same = now && now->start_time == process.start_time;
  bool sent = false;
  if (same && descriptor >= 0) {
    sent = syscall(SYS_pidfd_send_signal, descriptor, signal, nullptr, 0) == 0;
  } else if (same && (errno == ENOSYS || errno == EPERM || errno == EINVAL)) {
    sent = kill(process.pid, signal) == 0;  // a kernel before 5.3, or a filter that forbids pidfds
  }
  if (descriptor >= 0) close(descriptor);
  return sent;
}

bool CatchesSignal(pid_t pid, int signal) {
  const std::string text = ReadSmallFile(Concat("/proc/", pid, "/status")).value_or("");
  for (const std::string_view line : Split(text, '\n')) {
    if (line.substr(0, 7) != "SigCgt:") continue;
    const std::string hex(Trim(line.substr(7)));
    const unsigned long long mask = std::strtoull(hex.c_str(), nullptr, 16);
    return ((mask >> static_cast<unsigned>(signal - 1)) & 1U) != 0;
  }
  return false;
}

std::vector<ProcessInfo> KillDescendants(pid_t root, Duration limit) {
  const TimePoint until = SteadyNow() + limit;
  while (true) {
    ReapChildren();
    std::vector<ProcessInfo> alive = Descendants(root);
    std::erase_if(alive, [](const ProcessInfo& process) { return !process.alive(); });
    if (alive.empty() || SteadyNow() >= until) return alive;
    for (const ProcessInfo& process : alive) SignalProcess(process, SIGKILL);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

std::string DescribeProcesses(const std::vector<ProcessInfo>& processes) {
  std::string text;
  const std::size_t shown = std::min<std::size_t>(processes.size(), 3);
  for (std::size_t i = 0; i < shown; ++i) {
    if (i > 0) text += ", ";
    text += Concat(processes[i].pid, " (", processes[i].name, ", state ", processes[i].state, ")");
  }
  if (processes.size() > shown) text += Concat(" and ", processes.size() - shown, " more");
  return text;
}

}  // namespace muster::agent
