#pragma once

// Everything between the command line and the first process: the run's name and attempt, its
// folders, its plan with what other runs hold, its record. After Prepare only starting is left.
//
// Used by the host alone. Every failure is one sentence with its documented exit code, before
// anything was started.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/status.h"
#include "launcher/agent/options.h"
#include "launcher/config/run_options.h"
#include "launcher/host/plan.h"
#include "launcher/host/register.h"
#include "launcher/host/state_folder.h"
#include "launcher/slurm/allocation.h"
#include "launcher/slurm/environment_map.h"

namespace muster::host {

struct LaunchInput {
  config::RunOptions options;
  slurm::Allocation allocation;
  slurm::EnvironmentMap environment;
  std::vector<std::string> program;
  std::string folder;     // the current one
  std::string host_name;  // gethostname
};

struct Launch {
  Plan plan;
  RunIdentity identity;
  std::string run_id;
  std::string run_name;
  std::uint32_t attempt = 0;
  std::string job;   // "" without Slurm
  std::string base;  // of the state folder
  RunFiles files;
  std::string state_token;  // in a file of the state folder
  std::string checkpoint_dir;
  std::string log_dir;
  std::string journal_dir;  // on this machine's own disk; removed at the end
  // The newest attempt's end, if there was one.
  std::optional<PastVerdict> past;
  // It succeeded, and --again was not given: nothing was prepared, nothing is to be done.
  bool already_done = false;
};

// The plan alone, without touching any file: what `muster plan` shows.
Result<Plan> PlanOnly(const LaunchInput& input);
Result<Launch> Prepare(const LaunchInput& input);
// The plan is given: the steps of `srun --muster` have theirs from Slurm.
Result<Launch> PrepareWithPlan(const LaunchInput& input, Plan plan);

// What all agents are told. Endpoints and certificate come from the host.
agent::Options AgentOptions(const LaunchInput& input, const Launch& launch);

// The entry is marked as ended, so that others may take the nodes.
void MarkEnded(const Launch& launch);

}  // namespace muster::host
