#include <algorithm>
#include <filesystem>

#include "common/text.h"
#include "launcher/host/run.h"
#include "launcher/slurm/run_command.h"
#include "launcher/slurm/srun_command.h"

namespace muster::host {

Result<std::vector<StepProcess>> Run::SrunAgents(const slurm::EnvironmentMap& added) const {
  const slurm::Allocation& allocation = input_.allocation;
  slurm::AgentsStep step;
  step.nodes = launch_.plan.nodes;
  if (allocation.cpus_per_node.size() == allocation.nodes.size()) {
    for (std::size_t i = 0; i < allocation.nodes.size(); ++i) {
      if (std::ranges::find(step.nodes, allocation.nodes[i]) != step.nodes.end()) {
        step.cpus_per_node.push_back(allocation.cpus_per_node[i]);
      }
    }
  }
  if (allocation.het) step.het_component = allocation.het->offset;
  step.extra_options = input_.options.srun;
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return NotFound(Concat("cannot read /proc/self/exe: ", error.message()));
  step.program = {self.string(), "agent"};
  step.added = added;
  MUSTER_ASSIGN_OR_RETURN(slurm::SrunCommand command,
                          slurm::BuildSrunCommand(step, input_.environment));
  MUSTER_ASSIGN_OR_RETURN(command.arguments[0], slurm::FindTool("srun", input_.environment, ""));
  StepProcess process;
  process.what = "the agents' srun";
  process.request.argv = std::move(command.arguments);
  process.request.environment = slurm::EnvironmentEntries(command.environment);
  return std::vector<StepProcess>{std::move(process)};
}

}  // namespace muster::host
