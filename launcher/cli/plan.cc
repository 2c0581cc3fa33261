#include "common/text.h"
#include "launcher/cli/context.h"
#include "launcher/host/agents_command.h"
#include "launcher/host/launch.h"
#include "proto/environment.h"

namespace muster::cli {

int PlanCommand(const Words& words) {
  const Result<Context> context = MakeContext(config::kPlan, words);
  if (!context.ok()) return UsageError(context.status());
  if (HelpAsked(*context, config::kPlan)) return exit_code::kDone;
  const Result<host::LaunchInput> input = ToLaunchInput(*context);
  if (!input.ok()) return UsageError(input.status());
  Result<host::Plan> plan = host::PlanOnly(*input);
  if (!plan.ok()) return UsageError(plan.status());
  if (!plan->local) {
    const auto command = host::AgentsCommand(*input, plan->nodes, {});
    if (command.ok()) {
      plan->lines.push_back({"agents' step", Join(command->arguments, " "),
                             "all that the job has on each node, one agent a node"});
    } else {
      plan->warnings.push_back(command.status().message());
    }
  }
  Print(context->line.settings.Flag("json") ? host::PlanJson(*plan) : host::PlanText(*plan));
  return exit_code::kDone;
}

}  // namespace muster::cli
