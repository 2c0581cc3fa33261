#pragma once

// The keeper: the agent's first process, direct child of slurmstepd, one thread, no gRPC.
//
// It holds the secret and the node lock, starts the supervisor, passes signals on, and reaps. When
// the supervisor dies without a last word, it ends every process below itself (it is a subreaper:
// those that forked twice and called setsid come back to it) and starts a new one.

#include <signal.h>

#include <string>

#include "launcher/agent/files.h"
#include "launcher/agent/supervisor_arguments.h"

namespace muster::agent {

class Keeper {
 public:
  // `secret` is kept for new supervisors. Signals of KeeperSignals() must be blocked.
  Keeper(std::string secret, SupervisorArguments arguments, std::string name);
  ~Keeper();
  Keeper(const Keeper&) = delete;
  Keeper& operator=(const Keeper&) = delete;

  // The exit code.
  int Run();

 private:
  struct End {
    bool orderly = false;  // with a last word
    int code = 0;
    std::string how;
  };
  Status Start();
  End WaitForSupervisor();
  std::string ReadFarewell();

  std::string secret_;
  SupervisorArguments arguments_;
  const std::string name_;  // for messages: "n3/0.0"
  pid_t supervisor_ = 0;
  Descriptor socket_;
  bool stop_passed_on_ = false;
};

sigset_t KeeperSignals();

}  // namespace muster::agent
