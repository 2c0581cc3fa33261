#pragma once

// Reducer: sums gradients over all ranks in buckets while backward still runs.
//
// The plan of buckets is the same on all ranks. Thread-compatible; the gradients must stay where
// they are until Wait has returned.

#include <cstddef>
#include <span>
#include <vector>

#include "common/status.h"
#include "trainer_runtime/comm/process_group.h"
#include "trainer_runtime/train/bucket_plan.h"

namespace muster::train_program {

class Reducer {
 public:
  Reducer(comm::ProcessGroup& group, std::span<float> gradients, training::BucketPlan plan);

  // A range that is final, next to the one before and in front of it (models::GradientHook).
  void Add(std::size_t first, std::size_t count);
  // All that was launched has ended, well or not; then it is ready for the next step.
  Status Wait();

 private:
  comm::ProcessGroup& group_;
  const std::span<float> gradients_;
  training::BucketProgress progress_;
  std::vector<comm::Work> works_;
};

}  // namespace muster::train_program
