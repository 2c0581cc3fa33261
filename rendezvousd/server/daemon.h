#pragma once

// The whole daemon of one run and attempt: listening socket, gRPC server, loop. `Run` is what main
// calls after it has read the start options.

#include <memory>
#include <string>

#include "common/status.h"
#include "rendezvousd/protocol/start_options.h"
#include "rendezvousd/server/inbox.h"

namespace muster::server {

// Another thread's way to end a daemon: thread-safe, harmless before and after.
class StopHandle {
 public:
  void Stop(std::string reason);

 private:
  friend int RunDaemon(const protocol::StartOptions&, StopHandle*);
  Inbox inbox_;
};

// Serves until the run is over or a stop is asked for; gives the process's exit code (exit_code.h)
// after it has said on stderr why.
int RunDaemon(const protocol::StartOptions& options, StopHandle* stop);

}  // namespace muster::server
