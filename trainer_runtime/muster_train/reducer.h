#pragma once

// Reducer: sums gradients over all ranks in buckets while backward still runs.
//
// Bucket borders depend on the model and the bucket's size alone: they are part of what decides the
// bits. Thread-compatible; the gradients must stay where they are until Wait has returned.

#include <cstddef>
#include <span>
#include <vector>

#include "common/status.h"
#include "common/time.h"
#include "trainer_runtime/comm/process_group.h"

namespace muster::train_program {

class Reducer {
 public:
  Reducer(comm::ProcessGroup& group, std::span<float> gradients, std::size_t bucket_bytes);

  // A range that is final, next to the one before and in front of it (models::GradientHook).
  void Add(std::size_t first, std::size_t count);
  // All sums are there. After a failure every one has ended, too.
  Status Wait();

 private:
  void Launch();

  comm::ProcessGroup& group_;
  const std::span<float> gradients_;
  const std::size_t bucket_floats_;
  std::size_t bucket_begin_, bucket_end_;
  std::vector<comm::Work> works_;
};

}  // namespace muster::train_program
