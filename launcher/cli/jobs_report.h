#pragma once

// What `muster jobs` says: the jobs that this user has started something in, as far as their
// pointers and state folders tell. A pointer to nothing is named, never an error.

#include <string>
#include <vector>

#include "launcher/cli/find_run.h"
#include "launcher/cli/status_report.h"

namespace muster::cli {

struct JobReport {
  KnownJob job;
  std::string state;  // "running", "does not answer", "gone", a verdict's outcome, "unknown"
  std::vector<RunReport> runs;  // the oldest first
};

// The newest first. Daemons that should live are asked, in all for ten seconds at most.
std::vector<JobReport> ReadJobs(const slurm::EnvironmentMap& environment);
std::string JobsText(const std::vector<JobReport>& jobs);
Json JobsJson(const std::vector<JobReport>& jobs);

}  // namespace muster::cli
