#include "launcher/host/agents_command.h"

#include <algorithm>
#include <filesystem>

#include "common/text.h"
#include "launcher/slurm/run_command.h"

namespace muster::host {

Result<slurm::SrunCommand> AgentsCommand(const LaunchInput& input,
                                         const std::vector<std::string>& nodes,
                                         const slurm::EnvironmentMap& added) {
  const slurm::Allocation& allocation = input.allocation;
  slurm::AgentsStep step;
  step.nodes = nodes;
  if (allocation.cpus_per_node.size() == allocation.nodes.size()) {
    for (std::size_t i = 0; i < allocation.nodes.size(); ++i) {
      if (std::ranges::find(nodes, allocation.nodes[i]) != nodes.end()) {
        step.cpus_per_node.push_back(allocation.cpus_per_node[i]);
      }
    }
  }
  if (allocation.het) step.het_component = allocation.het->offset;
  step.extra_options = input.options.srun;
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return NotFound(Concat("cannot read /proc/self/exe: ", error.message()));
  step.program = {self.string(), "agent"};
  step.added = added;
  MUSTER_ASSIGN_OR_RETURN(slurm::SrunCommand command,
                          slurm::BuildSrunCommand(step, input.environment));
  MUSTER_ASSIGN_OR_RETURN(command.arguments[0], slurm::FindTool("srun", input.environment, ""));
  return command;
}

}  // namespace muster::host
