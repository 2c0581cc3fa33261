#pragma once

// `muster host`: what the SPANK plugin starts in srun, between allocation and launch
// (spank_plugin/srun_side.cc). It makes the daemon, writes variables for the tasks to the ready
// descriptor, and serves until the run is over or srun is gone. It asks nothing of Slurm.
//
//   muster host --from-srun --ready-fd=N --job=ID --step=ID --step-nodes=N --step-tasks=N
//               [options of `muster run`...]
//
// The answer is lines NAME=VALUE and an empty line; closing without an empty line means failure,
// whose reason is on stderr.

#include <cstdint>
#include <string>
#include <vector>

#include "common/status.h"
#include "launcher/host/host.h"

namespace muster::host {

struct SrunArguments {
  int ready_descriptor = -1;
  std::uint32_t job = 0;
  std::uint32_t step = 0;
  std::uint32_t step_nodes = 0;
  std::uint32_t step_tasks = 0;
  std::vector<std::string> run_options;  // for config/command_line.h
};

// Pure. The arguments behind "host".
Result<SrunArguments> ParseSrunArguments(const std::vector<std::string>& arguments);

// The plan that srun has already made: nodes are known by their agents' hellos alone, all of them
// are needed, one worker each task.
Result<Plan> PlanOfStep(const SrunArguments& arguments, const config::RunOptions& options);

// The lines for the tasks' environment, with the empty line at the end.
std::string ReadyAnswer(const agent::Options& options, const std::string& join_secret);

}  // namespace muster::host
