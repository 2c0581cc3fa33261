#pragma once

// The one parent of a run: starts and restarts the daemon, starts the agents, does what the daemon
// wishes of Slurm, and ends with the verdict. It decides nothing about the world.
//
// RunHost blocks until the run is over and gives the exit code (proto/environment.h). Nothing that
// it started lives on afterwards. To be called once, from the main thread, before any thread
// exists.

#include <vector>

#include "launcher/host/launch.h"

namespace muster::host {

int RunHost(const LaunchInput& input);

// `muster host` (srun_host.h): agents are Slurm's tasks, the host only keeps the daemon.
struct SrunWay {
  int ready_descriptor = -1;
  Plan plan;
};
int RunHostForSrun(const LaunchInput& input, SrunWay way);

}  // namespace muster::host
