#pragma once

// What Slurm gave us, read from its environment variables. Pure.
//
// Where we are is told by the step id alone, never by a job's name. The job's numbers come from
// SLURM_JOB_*, the step's from SLURM_STEP_*: inside a step SLURM_NNODES, SLURM_NTASKS and
// SLURM_TASKS_PER_NODE are the step's, whatever their names promise. Anything that cannot be read
// or cannot be true is InvalidArgument and names the variable, its value and what to do; nothing
// ever falls back to fewer nodes.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/status.h"
#include "launcher/slurm/environment_map.h"
#include "launcher/slurm/job_id.h"

namespace muster::slurm {

enum class Place {
  kNoJob,  // no Slurm job around us
  kBatch,  // the batch script
  kShell,  // a shell of salloc: on the submit host, or as the interactive step
  kStep,   // a task of an srun step
};

std::string_view PlaceName(Place place);

// The srun step around us.
struct Step {
  std::uint32_t id = 0;
  std::vector<std::string> nodes;
  std::vector<int> tasks_per_node;  // one entry a node
  int tasks = 0;
  // This task's own numbers.
  int node_index = 0;  // within the step
  int rank = 0;
  int local_rank = 0;
};

struct HetComponent {
  int size = 0;    // components of the job
  int offset = 0;  // ours
};

struct Allocation {
  Place place = Place::kNoJob;
  // All below is empty for kNoJob.
  JobId job;
  std::optional<HetComponent> het;
  std::string cluster;              // may be empty
  std::string submit_dir;           // may be empty
  std::string partition;            // may be empty
  std::uint32_t restart_count = 0;  // the attempt
  std::vector<std::string> nodes;   // of the job, in Slurm's order, as it was at the start
  std::string node_name;            // Slurm's name of this node; empty in salloc's local shell
  // One entry a node; empty if Slurm does not say. Outside of a step only.
  std::vector<int> tasks_per_node;
  // The user asked for tasks. Without that Slurm fills tasks_per_node by itself, in an exclusive
  // job with the number of CPUs.
  bool tasks_requested = false;
  std::vector<int> cpus_per_node;   // one entry a node; empty if Slurm does not say
  std::optional<int> gpus_on_node;  // on this node
  std::optional<Step> step;         // for kStep
};

// `explicit_hosts` is the value of --hosts, or "": it stands in for the job's node list.
Result<Allocation> ReadAllocation(const EnvironmentMap& environment,
                                  std::string_view explicit_hosts = {});

}  // namespace muster::slurm
