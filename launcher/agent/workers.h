#pragma once

// The worker processes of one supervisor: started, drained, reaped, and ended with all that they
// started. Decides nothing by itself: supervisor_machine.h says what to do, this reports.
//
// Lives on the supervisor's loop, whose thread must be the process's main thread (parent-death
// signals follow the thread that started a process).

#include <sys/types.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "launcher/agent/event_loop.h"
#include "launcher/agent/exec_stage.h"
#include "launcher/agent/files.h"
#include "launcher/agent/output.h"
#include "launcher/agent/place.h"
#include "launcher/agent/worker_trees.h"

namespace muster::agent {

struct WorkerEvents {
  std::function<void(WorkerId, Stream, std::string_view)> on_output;
  // The process ended; what it had written before was given to on_output already. `status` is
  // wait(2)'s.
  std::function<void(WorkerId, pid_t, int status)> on_exit;
  std::function<void(WorkerId)> on_tree_gone;
  std::function<void(WorkerId, std::string processes)> on_tree_remains;
};

class Workers {
 public:
  Workers(EventLoop* loop, WorkerEvents events);
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  // `mark` is what `environment` holds as kWorkerMark. The stage's parent is filled in.
  Result<pid_t> Start(const WorkerId& worker, ExecStage stage, const Environment& environment,
                      const std::string& mark);
  // See SignalTree in supervisor_machine.h.
  void Signal(const WorkerId& worker, int signal);
  // To every worker process that has a handler for it.
  void SignalCatchers(int signal);
  // Whose process this is.
  std::optional<WorkerId> Identify(pid_t pid) const;
  // After SIGCHLD: reaps workers and whatever came back to the subreaper.
  void Reap();

 private:
  struct Process;
  void Drain(Process& process, Stream stream);
  void StopDraining(Process& process);
  WorkerTrees Trees() const;
  void WatchTrees();
  void CheckTrees();
  Process* Find(const WorkerId& worker);

  EventLoop* const loop_;
  const WorkerEvents events_;
  std::map<pid_t, WorkerProcess> known_;  // by pid; kept until the tree is gone
  std::map<WorkerId, std::unique_ptr<Process>> processes_;
  EventLoop::Id tree_timer_ = 0;
  Duration tree_pause_{};
};

}  // namespace muster::agent
