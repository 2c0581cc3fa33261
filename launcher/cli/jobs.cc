#include "common/log.h"
#include "common/text.h"
#include "launcher/cli/context.h"
#include "launcher/cli/jobs_report.h"
#include "launcher/host/state_folder.h"
#include "proto/environment.h"

namespace muster::cli {

int JobsCommand(const Words& words) {
  const Result<Context> context = MakeContext(config::kJobs, words);
  if (!context.ok()) return UsageError(context.status());
  if (HelpAsked(*context, config::kJobs)) return exit_code::kDone;
  if (!context->line.program.empty()) {
    return UsageError(InvalidArgument("muster jobs takes options only"));
  }
  const std::vector<JobReport> jobs = ReadJobs(context->environment);
  if (context->line.settings.Flag("json")) {
    Print(Dump({{"jobs", JobsJson(jobs)}}));
  } else if (jobs.empty()) {
    LogInfo(Concat("no job is known in ", host::PointerFolder(context->environment)));
  } else {
    Print(JobsText(jobs));
  }
  return exit_code::kDone;
}

}  // namespace muster::cli
