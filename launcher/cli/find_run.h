#pragma once

// Which runs a command is about: from a job, a folder or nothing to run folders.
//
// Works on files alone and asks no daemon. Used by every command that reads or operates a job.

#include <filesystem>
#include <string>
#include <vector>

#include "common/status.h"
#include "launcher/slurm/environment_map.h"

namespace muster::cli {

// The folder that holds the runs. `word`: a job, a folder, or "": the job around us, else the only
// running one, else the newest. NotFound says where was looked.
Result<std::string> FindBase(const std::string& word, const std::string& state_dir,
                             const slurm::EnvironmentMap& environment, const std::string& folder);

// The folders of the base's runs, the oldest first; with a name only that one. A base may be the
// folder of one run itself.
Result<std::vector<std::string>> RunFolders(const std::string& base, const std::string& name = "");

// A job that this user has started something in.
struct KnownJob {
  std::string job;
  std::string base;    // as its pointer says, "" where that is damaged
  bool there = false;  // the base still holds runs
  std::filesystem::file_time_type started;
};
// The newest first.
std::vector<KnownJob> KnownJobs(const slurm::EnvironmentMap& environment);

// From its files: it has an operator's access and no verdict of that attempt, and its host, where
// that is this machine, lives.
bool LooksRunning(const std::string& run_folder);

// "run1 of job 4711", "run1 in /folder" for a run without a job.
std::string RunTitle(const std::string& run_folder);
// The Slurm job whose register names the run last, "" if none.
std::string JobOf(const std::string& run_folder);

}  // namespace muster::cli
