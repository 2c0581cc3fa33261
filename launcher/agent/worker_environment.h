#pragma once

// What a worker finds in its environment: one table, read by the agent, `muster plan` and the man
// page muster-environment(7).
//
// Facts of the world (ranks, sizes, addresses) are always muster's, since they change with every
// round; another value found is named once (Made::replaced), --keep-env keeps it. Settings (what
// tunes) are set only where nobody has set them. Pure.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "launcher/agent/options.h"
#include "launcher/agent/place.h"
#include "launcher/network/settings.h"
#include "proto/local.h"

namespace muster::agent {

enum class RowKind {
  kFact,     // muster's value wins
  kSetting,  // the user's or the site's value wins
  kRemoved,  // taken away
};

struct Row {
  std::string name;
  RowKind kind = RowKind::kFact;
  std::string value;
  std::string reason;
};

struct WorkerFacts {
  local::RoundInfo round;
  std::string tasks_per_node;     // of the round, Slurm's form
  std::uint32_t local_index = 0;  // on this agent
  std::string run_name;
  std::string agent_socket;
  std::string state_dir;
  std::string checkpoint_dir;
  std::string local_dir;
  std::string notice_file;
  std::string error_file;   // TORCHELASTIC_ERROR_FILE
  std::string worker_mark;  // names this process for its agent
  std::uint32_t cpus = 1;   // that the worker may count on
  // Visible devices, opaque (numbers, GPU-..., MIG-...), in order; empty: none known.
  std::vector<std::string> devices;
  std::vector<network::Setting> network;
};

// Every row for this worker, in the order of the documentation. `base` decides which rows apply
// (Slurm's only inside Slurm).
std::vector<Row> WorkerRows(const WorkerFacts& facts, const Environment& base);

struct Replaced {
  std::string name;
  std::string old_value;
  std::string new_value;
};

struct Made {
  Environment environment;
  std::vector<Replaced> replaced;  // facts that were set to something else before
  std::vector<std::string> kept;   // facts that --keep-env left alone
};

// `base` is the agent's own environment. set_environment goes over it first.
Made MakeWorkerEnvironment(const Environment& base, const Options& options,
                           const WorkerFacts& facts);

// The variable by which an agent finds a worker's orphans again; see WorkerFacts::worker_mark.
inline constexpr char kWorkerMark[] = "MUSTER_WORKER";

// The devices that the agent's environment shows: from CUDA_VISIBLE_DEVICES, ROCR_VISIBLE_DEVICES
// or HIP_VISIBLE_DEVICES, else 0 to `found` - 1.
std::vector<std::string> VisibleDevices(const Environment& base, std::uint32_t found);

}  // namespace muster::agent
