#include <utility>

#include "launcher/cli/context.h"
#include "launcher/host/srun_host.h"

namespace muster::cli {
namespace {

// srun knows its job even where its environment does not: outside of a job it makes one.
slurm::Allocation AllocationOfStep(const host::SrunArguments& arguments,
                                   const slurm::EnvironmentMap& environment) {
  const Result<slurm::Allocation> read = slurm::ReadAllocation(environment);
  if (read.ok() && read->place != slurm::Place::kNoJob) {
    slurm::Allocation allocation = *read;
    allocation.step.reset();
    return allocation;
  }
  slurm::Allocation allocation;
  allocation.place = slurm::Place::kShell;
  allocation.job.id = arguments.job;
  return allocation;
}

}  // namespace

int HostCommand(const Words& words) {
  const Result<host::SrunArguments> arguments = host::ParseSrunArguments(words);
  if (!arguments.ok()) return UsageError(arguments.status());
  Words options = arguments->run_options;
  options.push_back("--");
  const Result<Context> context = MakeContext(config::kRun, options);
  if (!context.ok()) return UsageError(context.status().With("--muster"));
  host::LaunchInput input;
  input.options = config::ToRunOptions(context->line.settings);
  // Its tasks start whether or not the same step succeeded in an earlier attempt of the script.
  input.options.again = true;
  input.environment = context->environment;
  input.folder = context->folder;
  input.host_name = context->host_name;
  input.allocation = AllocationOfStep(*arguments, input.environment);
  Result<host::Plan> plan = host::PlanOfStep(*arguments, input.options);
  if (!plan.ok()) return UsageError(plan.status());
  return host::RunHostForSrun(input, {arguments->ready_descriptor, std::move(plan).value()});
}

}  // namespace muster::cli
