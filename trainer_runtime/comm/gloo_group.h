#pragma once

// A ProcessGroup on the CPU: Gloo's transport, our own collectives.
//
// It aborts itself when its round ends. SIGPIPE is set to be ignored in this process unless it has
// a handler: Gloo writes to sockets whose peer may be gone.

#include <memory>
#include <stop_token>
#include <string>

#include "common/status.h"
#include "common/time.h"
#include "trainer_runtime/comm/process_group.h"
#include "trainer_runtime/session/session.h"

namespace muster::comm {

struct GlooOptions {
  std::string name = "world";  // tells apart several groups of one round
  Duration connect_timeout = std::chrono::minutes(2);
  // How long a peer may be silent within one operation. A round's end comes much sooner; this is
  // for programs without an agent, and for an agent that sees nothing wrong.
  Duration transfer_timeout = std::chrono::minutes(5);
};

// All ranks of `info`'s round call it. Aborted when the round ends meanwhile or `stop` is
// requested.
Result<std::unique_ptr<ProcessGroup>> CreateGlooGroup(session::Session& session,
                                                      const session::RoundInfo& info,
                                                      const GlooOptions& options,
                                                      const std::stop_token& stop = {});

}  // namespace muster::comm
