#pragma once

// What `muster status` says: each run of a state folder, from its living daemon where that can be
// reached, else from the files that it wrote.

#include <string>
#include <vector>

#include "common/status.h"
#include "launcher/cli/json_fields.h"

namespace muster::cli {

struct RunReport {
  std::string name;
  std::string folder;
  bool live = false;    // the daemon answered just now
  std::string problem;  // why it did not, where it should have
  std::string status;   // JSON in the form of the daemon's status.json; "" : nothing written yet
};

// Without `ask` from its files alone.
RunReport ReadRun(const std::string& folder, bool ask = true);
// A folder of one run or of several; with a name only that one.
Result<std::vector<RunReport>> ReadRuns(const std::string& base, const std::string& name = "");

// "succeeded", "failed", ...; "" while it is not over, as far as is known.
std::string OutcomeOf(const RunReport& run);
std::string RunText(const RunReport& run);
std::string ReportText(const std::string& base, const std::vector<RunReport>& runs);
// Of one run: its status with name and folder; of several: {"runs": [...]} and the newest on top.
Json RunJson(const RunReport& run);
std::string ReportJson(const std::string& base, const std::vector<RunReport>& runs);

}  // namespace muster::cli
