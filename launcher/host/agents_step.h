#pragma once

// The processes through which the agents of a run are started: one srun, or with --local one
// `muster agent` for each node that this machine plays. Each is started again when it ends without
// having been asked to, a few times; agents themselves do not depend on it while they live. A step
// that replaces the lost agents of single nodes is added, and not started again.
//
// On the loop's thread.

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/status.h"
#include "common/time.h"
#include "launcher/agent/event_loop.h"
#include "launcher/host/spawn.h"

namespace muster::host {

struct StepProcess {
  std::string what;  // "srun", "the agent of local1", for messages
  std::string node;  // of a local agent, else ""
  SpawnRequest request;
};

class AgentsStep {
 public:
  struct Events {
    // This one is given up (or ended by itself with 0); the reason is for people.
    std::function<void(const StepProcess&, std::string reason)> ended;
    // No process is left after Close.
    std::function<void()> closed;
    // May change what is started again; need not be set.
    std::function<void(StepProcess*)> before_restart = {};
  };
  AgentsStep(agent::EventLoop* loop, std::vector<StepProcess> processes, Events events);
  ~AgentsStep();

  Status Start();
  // One more, which is not started again. FailedPrecondition after Close.
  Status Add(StepProcess process);
  // From now on ends are expected; after `patience` TERM, and after `grace` more KILL.
  void Close(Duration patience, Duration grace);
  // At once.
  void Signal(int number);
  // Runs, or is about to be started again.
  bool AnyLeft() const;
  int restarts() const { return restarts_; }
  // KILL was needed: processes of theirs may still be there.
  bool killed() const { return killed_; }

 private:
  struct Slot;
  Status StartSlot(Slot* slot);
  void OnExit(Slot* slot, int wait_status);
  void Restart(Slot* slot);
  void MaybeClosed();

  agent::EventLoop* loop_;
  Events events_;
  std::vector<std::unique_ptr<Slot>> slots_;
  bool closing_ = false;
  bool told_ = false;
  int restarts_ = 0;
  bool killed_ = false;
  agent::EventLoop::Id timer_ = 0;
};

}  // namespace muster::host
