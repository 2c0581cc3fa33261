#pragma once

// The srun command of the agents' step: one agent a node, with all that the job has there. Pure.
//
// The step must not depend on how the job was submitted: srun reads some eighty variables as
// options, and the script's own counts (`--ntasks-per-node=8`) would start eight agents a node. So
// these variables are removed and the counts are given. Secrets travel in the environment, never in
// the arguments.

#include <optional>
#include <string>
#include <vector>

#include "common/status.h"
#include "launcher/slurm/environment_map.h"

namespace muster::slurm {

struct AgentsStep {
  std::vector<std::string> nodes;  // that get an agent: all of the job or some
  // CPUs of the job on each of `nodes`; empty: unknown.
  std::vector<int> cpus_per_node;
  // "gpu:4" for every node, if the caller knows it. Empty is the rule: a step without --gres gets
  // all that the job has on each node, also where nodes differ.
  std::string gres;
  std::optional<int> het_component;        // ours, in a heterogeneous job
  std::vector<std::string> extra_options;  // --srun OPTION and --container-*, in their order
  std::vector<std::string> program;        // `muster agent ...`
  // What the agents shall find besides: endpoint, secrets.
  EnvironmentMap added;
};

struct SrunCommand {
  std::vector<std::string> arguments;  // the first is "srun"
  EnvironmentMap environment;          // of srun, and through it of the agents
};

// `environment` is the host's own.
Result<SrunCommand> BuildSrunCommand(const AgentsStep& step, const EnvironmentMap& environment);

// `environment` without all that srun would read as an option.
EnvironmentMap WithoutSrunInputs(const EnvironmentMap& environment);

}  // namespace muster::slurm
