#pragma once

// The address on which the daemon of a run is reached by the other nodes, and its socket.

#include <string>
#include <vector>

#include "common/status.h"
#include "launcher/agent/files.h"

namespace muster::host {

// The source address of the route to the first of `nodes` that has one and is not this machine;
// 127.0.0.1 where all of them are this machine. Slurm's node names are resolved as Slurm's own
// tools do it; loopback answers for other nodes are refused, naming node and address.
Result<std::string> ChooseListenAddress(const std::vector<std::string>& nodes,
                                        const std::string& this_node);

struct Listener {
  agent::Descriptor socket;  // close-on-exec
  std::string endpoint;      // "10.0.0.1:4711", "[fd00::1]:4711"
};
// A port that the kernel chooses, at this numeric address.
Result<Listener> Listen(const std::string& address);

}  // namespace muster::host
