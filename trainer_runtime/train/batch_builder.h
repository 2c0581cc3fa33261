#pragma once

// From a cursor and a rank's slice to the tokens a model takes. Thread-compatible.

#include <cstdint>
#include <vector>

#include "trainer_runtime/models/model.h"
#include "trainer_runtime/train/corpus.h"
#include "trainer_runtime/train/sampler.h"

namespace muster::training {

class BatchBuilder {
 public:
  // The corpus outlives the builder.
  BatchBuilder(const Corpus& corpus, std::uint64_t seed);

  // The samples at positions samples_consumed + slice.first and on, slice.count of them. The batch
  // points into this builder and is valid until the next call; after the largest slice nothing is
  // allocated.
  models::Batch Build(std::uint64_t samples_consumed, const Slice& slice);

 private:
  const Corpus& corpus_;
  const Sampler sampler_;
  std::vector<std::int32_t> tokens_;
};

}  // namespace muster::training
