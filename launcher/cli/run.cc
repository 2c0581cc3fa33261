#include "launcher/cli/context.h"
#include "launcher/host/host.h"
#include "proto/environment.h"

namespace muster::cli {

int RunCommand(const Words& words) {
  const Result<Context> context = MakeContext(config::kRun, words);
  if (!context.ok()) return UsageError(context.status());
  if (HelpAsked(*context, config::kRun)) return exit_code::kDone;
  const Result<host::LaunchInput> input = ToLaunchInput(*context);
  if (!input.ok()) return UsageError(input.status());
  return host::RunHost(*input);
}

}  // namespace muster::cli
