#include "launcher/agent/worker_trees.h"

#include "common/text.h"
#include "launcher/agent/files.h"
#include "launcher/agent/worker_environment.h"

namespace muster::agent {

WorkerTrees AttributeProcesses(const std::vector<ProcessInfo>& descendants,
                               const std::map<pid_t, WorkerProcess>& workers,
                               const std::function<std::string(pid_t)>& mark_of) {
  WorkerTrees result;
  std::map<pid_t, std::optional<WorkerId>> owners;
  const auto by_mark = [&](pid_t pid) -> std::optional<WorkerId> {
    const std::string mark = mark_of(pid);
    if (mark.empty()) return std::nullopt;
    for (const auto& [leader, worker] : workers) {
      if (worker.mark == mark) return worker.worker;
    }
    return std::nullopt;
  };
  for (const ProcessInfo& process : descendants) {  // parents come before children
    std::optional<WorkerId> owner;
    const auto self = workers.find(process.pid);
    const auto parent = owners.find(process.parent);
    const auto session = workers.find(process.session);
    if (self != workers.end() && self->second.alive) {
      owner = self->second.worker;
    } else if (parent != owners.end() && parent->second) {
      owner = parent->second;
    } else if (session != workers.end()) {
      owner = session->second.worker;
    } else {
      owner = by_mark(process.pid);
    }
    owners[process.pid] = owner;
    if (!process.alive()) continue;
    if (owner) {
      result.trees[*owner].push_back(process);
    } else {
      result.strays.push_back(process);
    }
  }
  return result;
}

std::string ReadWorkerMark(pid_t pid) {
  const std::string text = ReadSmallFile(Concat("/proc/", pid, "/environ")).value_or("");
  const std::string prefix = Concat(kWorkerMark, "=");
  for (const std::string_view entry : Split(text, '\0')) {
    if (entry.starts_with(prefix)) return std::string(entry.substr(prefix.size()));
  }
  return "";
}

}  // namespace muster::agent
