#include "launcher/cli/context.h"
#include "launcher/host/launch.h"
#include "proto/environment.h"

namespace muster::cli {

int PlanCommand(const Words& words) {
  const Result<Context> context = MakeContext(config::kPlan, words);
  if (!context.ok()) return UsageError(context.status());
  if (HelpAsked(*context, config::kPlan,
                "usage: muster plan [options of run] [--] PROGRAM [ARGUMENTS]\n\n"
                "Prints what `muster run` with the same words would do, and why.")) {
    return exit_code::kDone;
  }
  const Result<host::LaunchInput> input = ToLaunchInput(*context);
  if (!input.ok()) return UsageError(input.status());
  const Result<host::Plan> plan = host::PlanOnly(*input);
  if (!plan.ok()) return UsageError(plan.status());
  Print(context->line.settings.Flag("json") ? host::PlanJson(*plan) : host::PlanText(*plan));
  return exit_code::kDone;
}

}  // namespace muster::cli
