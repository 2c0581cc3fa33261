#pragma once

// One call of a person's command to a run's daemon, through the operator's access file.

#include <functional>

#include "common/status.h"
#include "common/time.h"
#include "launcher/host/state_folder.h"
#include "rendezvousd/client/client.h"

namespace muster::cli {

// The daemon answers in milliseconds; a dead one must not make people wait.
inline constexpr Duration kLiveDeadline = std::chrono::seconds(2);

// `call` at each endpoint until one is reachable. The error names the endpoint.
Status CallDaemon(const host::OperatorAccess& access,
                  const std::function<Status(client::Client&)>& call);
Result<protocol::RunView> AskDaemon(const host::OperatorAccess& access);

}  // namespace muster::cli
