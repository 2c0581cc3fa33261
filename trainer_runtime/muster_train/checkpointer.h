#pragma once

// Checkpointer: entries of the whole replicated state, written beside the training.
//
// Save copies the state (the only stall) and returns; a thread writes the entry, removes older ones
// and what writers that died before its step left, and tells the outcome. A save waits for the one
// before it. Rank 0 saves; any rank loads.

#include <array>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "checkpoint/folder.h"
#include "common/status.h"
#include "common/time.h"
#include "trainer_runtime/models/buffer.h"
#include "trainer_runtime/muster_train/replica.h"

namespace muster::train_program {

struct Saved {
  std::uint64_t step = 0;
  Status status;
  Duration stall{}, write{};
};

class Checkpointer {
 public:
  // `saved` is called from the writing thread, once for each Save.
  Checkpointer(const Options& options, std::string run_id, std::function<void(const Saved&)> saved);
  ~Checkpointer();  // waits for the last write

  // Makes the folder, removes what dead writers of this run left below `from_step`.
  Status Prepare(std::uint64_t from_step);
  void Save(Replica& replica, std::uint32_t world_size);
  // All saves are durable or have failed; the last one's outcome.
  Status WaitSaved();
  // The newest step that Save or Load has seen durable.
  std::optional<std::uint64_t> newest_durable() const;

  // The newest good entry of this run; nothing if there is none at all.
  Result<std::optional<checkpoint::FoundEntry>> FindNewest() const;
  // Into the replica's buffers; it has a state afterwards. `verified`: by FindNewest, just now.
  Status Load(const std::string& entry, bool verified, Replica* replica);

 private:
  struct Snapshot {
    training::TrainingProgress progress;
    std::uint32_t world_size = 0;
    Duration stall{};
    std::array<models::Buffer<float>, 3> buffers;
    training::TrainingArrays arrays;  // in the buffers
  };
  void Run();
  Status Write();
  void PruneOld(std::uint64_t step);

  const std::string folder_, run_id_, model_;
  const std::size_t kept_;
  const std::function<void(const Saved&)> saved_;
  std::vector<models::Tensor> tensors_;
  Snapshot snapshot_;  // belongs to the thread while busy_

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool busy_ = false, stop_ = false;
  Status last_;
  std::set<std::uint64_t> durable_;
  std::jthread thread_;
};

}  // namespace muster::train_program
