#include "launcher/cli/job_command.h"
#include "launcher/cli/status_report.h"
#include "proto/environment.h"

namespace muster::cli {

int StatusCommand(const Words& words) {
  JobCommand command;
  if (const auto over = BeginJobCommand(config::kStatus, words, &command)) return *over;
  std::vector<RunReport> runs;
  for (const std::string& folder : command.folders) runs.push_back(ReadRun(folder));
  Print(command.Json() ? ReportJson(command.base, runs) : ReportText(command.base, runs));
  return exit_code::kDone;
}

}  // namespace muster::cli
