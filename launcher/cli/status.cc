#include <nlohmann/json.hpp>

#include "common/log.h"
#include "common/text.h"
#include "launcher/cli/context.h"
#include "launcher/cli/status_report.h"
#include "proto/environment.h"

namespace muster::cli {

int StatusCommand(const Words& words) {
  const Result<Context> context = MakeContext(config::kStatus, words);
  if (!context.ok()) return UsageError(context.status());
  if (HelpAsked(*context, config::kStatus)) return exit_code::kDone;
  const std::vector<std::string>& names = context->line.program;
  if (names.size() > 1) {
    return UsageError(InvalidArgument("muster status takes one job or folder"));
  }
  const Result<std::string> base =
      FindBase(names.empty() ? "" : names[0], context->line.settings.Text("state-dir"),
               context->environment, context->folder);
  if (!base.ok()) return UsageError(base.status());
  const Result<std::vector<RunReport>> runs = ReadRuns(*base);
  if (!runs.ok()) return UsageError(runs.status());
  Print(context->line.settings.Flag("json") ? ReportJson(*base, *runs) : ReportText(*base, *runs));
  return exit_code::kDone;
}

}  // namespace muster::cli
