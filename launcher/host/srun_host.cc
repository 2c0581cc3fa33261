#include "launcher/host/srun_host.h"

#include <algorithm>
#include <map>

#include "common/text.h"
#include "proto/environment.h"

namespace muster::host {

Result<SrunArguments> ParseSrunArguments(const std::vector<std::string>& arguments) {
  SrunArguments out;
  bool from_srun = false;
  std::uint32_t ready = 0;
  const std::map<std::string_view, std::uint32_t*> numbers = {{"--ready-fd", &ready},
                                                              {"--job", &out.job},
                                                              {"--step", &out.step},
                                                              {"--step-nodes", &out.step_nodes},
                                                              {"--step-tasks", &out.step_tasks}};
  std::map<std::string_view, bool> seen;
  for (const std::string& argument : arguments) {
    if (argument == "--from-srun") {
      from_srun = true;
      continue;
    }
    const std::string_view name = std::string_view(argument).substr(0, argument.find('='));
    const auto number = numbers.find(name);
    if (number == numbers.end()) {
      out.run_options.push_back(argument);
      continue;
    }
    const std::string_view value =
        std::string_view(argument).substr(std::min(argument.size(), name.size() + 1));
    MUSTER_ASSIGN_OR_RETURN(*number->second, ParseInteger<std::uint32_t>(name, value));
    seen[number->first] = true;
  }
  if (!from_srun || seen.size() != numbers.size()) {
    return InvalidArgument(
        "`muster host` is started by the Slurm plugin, not by hand; use `muster run` or "
        "`srun --muster`");
  }
  out.ready_descriptor = static_cast<int>(ready);
  return out;
}

Result<Plan> PlanOfStep(const SrunArguments& arguments, const config::RunOptions& options) {
  if (arguments.step_nodes == 0 || arguments.step_tasks < arguments.step_nodes) {
    return InvalidArgument(Concat("srun says that its step has ", arguments.step_tasks,
                                  " tasks on ", arguments.step_nodes,
                                  " nodes; each node needs a task"));
  }
  for (const auto& [given, name] :
       {std::pair{options.nodes.has_value(), "nodes"}, std::pair{options.spares > 0, "spares"},
        std::pair{options.workers_per_node.has_value(), "workers-per-node"},
        std::pair{options.local.has_value(), "local"}}) {
    if (given) {
      return InvalidArgument(Concat("--muster cannot have ", name,
                                    ": with srun --muster the step's own tasks are the workers; "
                                    "use `muster run --",
                                    name, "` in the script"));
    }
  }
  Plan plan;
  plan.min_nodes = arguments.step_nodes;
  plan.max_nodes = arguments.step_nodes;
  plan.workers_per_node = 1;
  plan.lease = options.lease;
  plan.beat = BeatOf(options.lease);
  return plan;
}

std::string ReadyAnswer(const agent::Options& options, const std::string& join_secret) {
  return Concat(environment::kAgentOptions, "=", agent::ToJson(options), "\n",
                environment::kJoinSecret, "=", join_secret, "\n\n");
}

}  // namespace muster::host
