#pragma once

// What `muster status` says: each run of a state folder, from its living daemon where that can be
// reached, else from the files that it wrote.

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "common/status.h"
#include "launcher/slurm/environment_map.h"

namespace muster::cli {

struct RunReport {
  std::string name;
  std::string folder;
  bool live = false;    // the daemon answered just now
  std::string problem;  // why it did not, where it should have
  std::string status;   // JSON in the form of the daemon's status.json; "" : nothing written yet
};

// The folder that holds the runs. `word`: a job, a folder, or "": the job around us, else the only
// job or the newest. NotFound says where was looked.
Result<std::string> FindBase(const std::string& word, const std::string& state_dir,
                             const slurm::EnvironmentMap& environment, const std::string& folder);

// A folder of one run or of several.
Result<std::vector<RunReport>> ReadRuns(const std::string& base);

std::string ReportText(const std::string& base, const std::vector<RunReport>& runs);
// Of one run: its status with name and folder; of several: {"runs": [...]} and the newest on top.
std::string ReportJson(const std::string& base, const std::vector<RunReport>& runs);

}  // namespace muster::cli
