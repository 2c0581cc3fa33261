#pragma once

// What `muster logs` says of a run's logs: the list of them, and those that a reader asked for.

#include <string>
#include <vector>

#include "common/status.h"
#include "launcher/cli/json_fields.h"
#include "launcher/cli/log_files.h"
#include "launcher/cli/why_report.h"

namespace muster::cli {

// A line each: file, size, last line.
std::string LogsText(const std::string& run, const std::string& folder,
                     const std::vector<LogFile>& logs);
Json LogsJson(const std::vector<LogFile>& logs);

struct Wanted {
  int rank = -1;  // -1: all
  bool first_failing = false;
};
struct ChosenLogs {
  std::vector<LogFile> logs;
  int rank = -1;  // whose lines of an agent's log, -1: all
};
// NotFound says what there is instead.
Result<ChosenLogs> ChooseLogs(const Story& story, const Wanted& wanted);

}  // namespace muster::cli
