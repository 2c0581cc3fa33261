#include "launcher/cli/job_command.h"

#include <algorithm>

#include "common/text.h"
#include "launcher/cli/find_run.h"
#include "launcher/config/option_table.h"
#include "proto/environment.h"

namespace muster::cli {

std::optional<int> BeginJobCommand(unsigned command, const Words& words, JobCommand* begun) {
  // Options may stand behind the job as well: nothing here is a program with words of its own.
  Words ordered = words;
  if (!words.empty() && !words[0].starts_with('-')) {
    std::ranges::rotate(ordered, ordered.begin() + 1);
  }
  Result<Context> context = MakeContext(command, ordered);
  if (!context.ok()) return UsageError(context.status());
  begun->context = std::move(context).value();
  if (HelpAsked(begun->context, command)) return exit_code::kDone;
  const config::CommandLine& line = begun->context.line;
  if (line.program.size() > 1) {
    return UsageError(InvalidArgument(
        Concat("muster ", config::CommandName(command), " takes one job or folder")));
  }
  const Result<std::string> base =
      FindBase(line.program.empty() ? "" : line.program[0], line.settings.Text("state-dir"),
               begun->context.environment, begun->context.folder);
  if (!base.ok()) return UsageError(base.status());
  begun->base = *base;
  const auto folders = RunFolders(*base, line.settings.Text("name"));
  if (!folders.ok()) return UsageError(folders.status());
  begun->folders = *folders;
  return std::nullopt;
}

void PrintRuns(const JobCommand& command, cli::Json runs) {
  Print(Dump({{"state_dir", command.base}, {"runs", std::move(runs)}}));
}

}  // namespace muster::cli
