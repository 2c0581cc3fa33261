#pragma once

// The srun that starts the agents of a plan; what `muster plan` shows of it. Pure but for where
// srun and our own program are.

#include <string>
#include <vector>

#include "common/status.h"
#include "launcher/host/launch.h"
#include "launcher/slurm/srun_command.h"

namespace muster::host {

// On `nodes`, some of the plan's; `added` are variables for the agents.
Result<slurm::SrunCommand> AgentsCommand(const LaunchInput& input,
                                         const std::vector<std::string>& nodes,
                                         const slurm::EnvironmentMap& added);

}  // namespace muster::host
