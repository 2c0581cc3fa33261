#pragma once

// What a run will do, decided before anything starts: nodes, spares, workers, timers, and the
// reason of each. `muster run` does exactly what `muster plan` prints.
//
// Pure: options, allocation and environment in, a plan or one sentence out. Every contradiction
// that can be known here is found here.

#include <cstdint>
#include <string>
#include <vector>

#include "common/status.h"
#include "launcher/config/run_options.h"
#include "launcher/slurm/allocation.h"
#include "launcher/slurm/environment_map.h"
#include "rendezvousd/protocol/config.h"

namespace muster::host {

// Nodes that another living run of this job has taken.
struct Claim {
  std::string run_name;
  std::vector<std::string> nodes;
};

struct PlanInput {
  config::RunOptions options;
  slurm::Allocation allocation;
  slurm::EnvironmentMap environment;
  std::vector<std::string> program;
  std::vector<Claim> claims;
};

// One line of the plan: what, value, why.
struct PlanLine {
  std::string name;
  std::string value;
  std::string reason;
};

struct Plan {
  bool local = false;
  std::vector<std::string> nodes;  // that get an agent, in rank order
  std::uint32_t min_nodes = 1;
  std::uint32_t max_nodes = 1;
  std::uint32_t spares = 0;
  std::uint32_t workers_per_node = 1;
  bool can_requeue = false;
  std::vector<std::string> program;
  Duration beat{};
  Duration lease{};
  std::vector<PlanLine> lines;        // the world and its timers
  std::vector<PlanLine> environment;  // facts, and settings with their reasons
  std::vector<std::string> warnings;
};

// How often agents tell that they live.
Duration BeatOf(Duration lease);

Result<Plan> MakePlan(const PlanInput& input);

std::string PlanText(const Plan& plan);
std::string PlanJson(const Plan& plan);

// The daemon's configuration of this plan, but for what is only known at the start.
protocol::Config ToConfig(const Plan& plan, const config::RunOptions& options);

}  // namespace muster::host
