#include "launcher/agent/worker_environment.h"

#include <algorithm>
#include <set>

#include "common/text.h"
#include "launcher/network/address.h"
#include "proto/environment.h"

namespace muster::agent {
namespace {

namespace names = environment;

class Table {
 public:
  void Fact(std::string name, std::string value, std::string reason) {
    rows_.push_back({std::move(name), RowKind::kFact, std::move(value), std::move(reason)});
  }
  void Fact(std::string name, std::uint32_t value, std::string reason) {
    Fact(std::move(name), std::to_string(value), std::move(reason));
  }
  void Setting(std::string name, std::string value, std::string reason) {
    rows_.push_back({std::move(name), RowKind::kSetting, std::move(value), std::move(reason)});
  }
  void Removed(std::string name, std::string reason) {
    rows_.push_back({std::move(name), RowKind::kRemoved, "", std::move(reason)});
  }
  std::vector<Row> Take() { return std::move(rows_); }

 private:
  std::vector<Row> rows_;
};

void AddTorch(const WorkerFacts& facts, Table* table) {
  const local::RoundInfo& round = facts.round;
  table->Fact("RANK", round.rank, "rank in the world");
  table->Fact("WORLD_SIZE", round.world_size, "ranks in the world");
  table->Fact("LOCAL_RANK", round.local_rank, "rank on the node");
  table->Fact("LOCAL_WORLD_SIZE", round.local_world_size, "ranks on the node");
  table->Fact("GROUP_RANK", round.node_rank, "torchrun's name for the node's rank");
  table->Fact("GROUP_WORLD_SIZE", round.node_count, "torchrun's name for the number of nodes");
  table->Fact("NODE_RANK", round.node_rank, "the node's rank (Lightning, DeepSpeed)");
  table->Fact("ROLE_NAME", "default", "torchrun's role: muster has one");
  table->Fact("ROLE_RANK", round.rank, "rank in the role");
  table->Fact("ROLE_WORLD_SIZE", round.world_size, "ranks in the role");
  table->Fact("MASTER_ADDR", round.master_address, "address of rank 0's node, numeric");
  table->Fact("MASTER_PORT", round.master_port, "held by rank 0's agent for this round");
  table->Fact("TORCHELASTIC_RUN_ID", round.run_id, "the run; marks a torchrun-like start");
  table->Fact("TORCHELASTIC_RESTART_COUNT", round.restart_count,
              "rounds before this one in this attempt, the same on every rank");
  table->Setting("TORCHELASTIC_MAX_RESTARTS", "0", "muster decides about restarts");
  table->Fact("TORCHELASTIC_USE_AGENT_STORE", "False", "rank 0 serves the store at MASTER_PORT");
  table->Fact("TORCHELASTIC_ERROR_FILE", facts.error_file, "read back when the worker fails");
}

std::string NodeTasks(const local::RoundInfo& round) {
  std::vector<std::string> ids;
  const std::uint32_t first = round.rank - std::min(round.rank, round.local_rank);
  for (std::uint32_t i = 0; i < round.local_world_size; ++i) {
    ids.push_back(std::to_string(first + i));
  }
  return Join(ids, ",");
}

void AddSlurm(const WorkerFacts& facts, Table* table) {
  const local::RoundInfo& round = facts.round;
  const std::string reason = "as if the worker were a task of its own; the agent's is kept as ";
  const auto fact = [table, &reason](const std::string& name, const std::string& value) {
    table->Fact("SLURM_" + name, value, Concat(reason, names::kSlurmPrefix, name));
  };
  fact("PROCID", std::to_string(round.rank));
  fact("LOCALID", std::to_string(round.local_rank));
  fact("NODEID", std::to_string(round.node_rank));
  fact("NTASKS", std::to_string(round.world_size));
  fact("NPROCS", std::to_string(round.world_size));
  fact("NNODES", std::to_string(round.node_count));
  fact("GTIDS", NodeTasks(round));
  fact("TASKS_PER_NODE", facts.tasks_per_node);
  fact("STEP_NUM_TASKS", std::to_string(round.world_size));
  fact("STEP_NUM_NODES", std::to_string(round.node_count));
  fact("STEP_TASKS_PER_NODE", facts.tasks_per_node);
  // Lightning compares it with its number of devices; a ragged world has no such number.
  if (round.world_size == round.local_world_size * round.node_count) {
    fact("NTASKS_PER_NODE", std::to_string(round.local_world_size));
  } else {
    table->Removed("SLURM_NTASKS_PER_NODE", "the nodes have different numbers of ranks");
  }
}

void AddJax(const WorkerFacts& facts, Table* table) {
  const local::RoundInfo& round = facts.round;
  table->Fact("JAX_COORDINATOR_ADDRESS",
              network::FormatEndpoint(round.master_address, round.master_port),
              "process 0 serves JAX's coordinator there");
  table->Fact("JAX_NUM_PROCESSES", round.world_size, "ranks in the world");
  table->Fact("JAX_PROCESS_ID", round.rank, "rank in the world");
  const std::size_t devices = facts.devices.size();
  const std::size_t workers = std::max<std::uint32_t>(round.local_world_size, 1);
  if (devices == 0 || workers == 1) return;  // one process takes all that it sees
  std::vector<std::string> ids;
  const std::size_t share = std::max<std::size_t>(devices / workers, 1);
  for (std::size_t i = 0; i < share; ++i) {
    ids.push_back(std::to_string((round.local_rank * share + i) % devices));
  }
  table->Setting("JAX_LOCAL_DEVICE_IDS", Join(ids, ","),
                 "the worker's share of the node's devices");
}

void AddTuning(const WorkerFacts& facts, Table* table) {
  table->Setting(
      "OMP_NUM_THREADS", std::to_string(std::max<std::uint32_t>(facts.cpus, 1)),
      "the worker's share of the CPUs; every rank with all of them is many times slower");
  table->Setting("PYTHONUNBUFFERED", "1", "lines of a dying rank are not lost in a buffer");
  for (const network::Setting& setting : facts.network) {
    if (setting.kind != network::SettingKind::kSafe) continue;
    table->Setting(setting.name, setting.value, setting.reason);
  }
}

void AddMuster(const WorkerFacts& facts, Table* table) {
  const local::RoundInfo& round = facts.round;
  table->Fact(names::kRunId, round.run_id, "the run, over rounds and attempts");
  table->Fact(names::kRunName, facts.run_name, "the run's name");
  table->Fact(names::kAttempt, round.attempt, "Slurm's restart count");
  table->Fact(names::kRound, round.round, "the agreed world");
  table->Fact(names::kRestartCause, round.cause, "why this round began");
  table->Fact(names::kPreviousWorldSize, round.previous_world_size, "0 in the first round");
  const std::size_t devices = facts.devices.size();
  table->Fact(names::kDeviceIndex,
              std::to_string(devices == 0 ? round.local_rank : round.local_rank % devices),
              "valid among the devices that the worker sees");
  table->Fact(names::kAgentSocket, facts.agent_socket, "the agent listens there");
  table->Fact(names::kStateDir, facts.state_dir, "shared folder of the run");
  table->Fact(names::kCheckpointDir, facts.checkpoint_dir, "shared, for checkpoints");
  table->Fact(names::kLocalDir, facts.local_dir, "on the node's own disk");
  table->Fact(names::kNoticeFile, facts.notice_file, "appears when a stop is coming");
  table->Fact(kWorkerMark, facts.worker_mark, "finds what the worker started and left behind");
}

void AddRemoved(const Environment& base, Table* table) {
  for (const char* name : {names::kJoinSecret, names::kAgentOptions, names::kEndpoint,
                           names::kCertificate, kLocalNode}) {
    table->Removed(name, "between muster's own programs");
  }
  for (const auto& [name, value] : base) {
    if (name.starts_with("PMI_") || name.starts_with("PMIX_") || name.starts_with("OMPI_")) {
      table->Removed(name,
                     "of the agent's start, not of the worker: an MPI library would hang on it");
    }
  }
}

}  // namespace

std::vector<Row> WorkerRows(const WorkerFacts& facts, const Environment& base) {
  Table table;
  AddTorch(facts, &table);
  if (base.contains("SLURM_JOB_ID")) AddSlurm(facts, &table);
  AddJax(facts, &table);
  AddTuning(facts, &table);
  AddMuster(facts, &table);
  AddRemoved(base, &table);
  return table.Take();
}

Made MakeWorkerEnvironment(const Environment& base, const Options& options,
                           const WorkerFacts& facts) {
  Made made;
  made.environment = base;
  for (const auto& [name, value] : options.set_environment) made.environment[name] = value;
  const std::set<std::string> keep(options.keep_environment.begin(),
                                   options.keep_environment.end());
  for (const Row& row : WorkerRows(facts, base)) {
    const auto found = made.environment.find(row.name);
    const bool present = found != made.environment.end();
    if (row.kind == RowKind::kSetting) {
      if (!present) made.environment[row.name] = row.value;
      continue;
    }
    if (present && keep.contains(row.name)) {
      made.kept.push_back(row.name);
      continue;
    }
    const bool of_slurm = row.name.starts_with("SLURM_");
    if (present && of_slurm) {
      made.environment[names::kSlurmPrefix + row.name.substr(6)] = found->second;
    }
    if (row.kind == RowKind::kRemoved || row.value.empty()) {
      made.environment.erase(row.name);
      continue;
    }
    // Slurm's own are the agent's facts, and expected to differ.
    if (present && !of_slurm && found->second != row.value) {
      made.replaced.push_back({row.name, found->second, row.value});
    }
    made.environment[row.name] = row.value;
  }
  return made;
}

std::vector<std::string> VisibleDevices(const Environment& base, std::uint32_t found) {
  std::vector<std::string> devices;
  for (const char* name : {"CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"}) {
    const auto list = base.find(name);
    if (list == base.end()) continue;
    for (const std::string_view part : Split(list->second, ',')) {
      const std::string_view device = Trim(part);
      // CUDA's own rule: what follows -1 is not seen. Slurm's word for none is NoDevFiles.
      if (device == "-1" || device == "NoDevFiles") break;
      if (!device.empty()) devices.emplace_back(device);
    }
    return devices;
  }
  for (std::uint32_t i = 0; i < found; ++i) devices.push_back(std::to_string(i));
  return devices;
}

}  // namespace muster::agent
