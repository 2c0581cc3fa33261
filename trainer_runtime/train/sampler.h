#pragma once

// Which samples a step trains on.
//
// Positions 0, 1, 2, ... run through the data pass after pass; each pass holds every sample once,
// in an order of its own. A step takes the next `global batch` positions, wherever a pass ends in
// them. So the samples of a step depend on the seed and on how many samples were consumed before,
// never on the number of ranks: 4 -> 3 -> 4 ranks, or another batch size, leave no sample out and
// give none twice. Pure values; anybody may use them.

#include <cstdint>

#include "common/status.h"

namespace muster::training {

// Where the training is in its data; a part of the training state.
struct DataCursor {
  std::uint64_t seed = 0;
  std::uint64_t samples_consumed = 0;

  friend bool operator==(const DataCursor&, const DataCursor&) = default;
};

// A rank's part of the global batch: places [first, first + count) of it.
struct Slice {
  std::uint64_t first = 0;
  std::uint64_t count = 0;

  friend bool operator==(const Slice&, const Slice&) = default;
};

// Contiguous, in rank order, and as equal as can be: the first global_batch % world_size ranks have
// one more. Empty for some where the batch is smaller than the world. REQUIRES rank < world_size.
Slice RankSlice(std::uint64_t global_batch, std::uint64_t rank, std::uint64_t world_size);

class Sampler {
 public:
  // `samples` of the data set. InvalidArgument: none, or more than 2^62.
  static Result<Sampler> Create(std::uint64_t samples, std::uint64_t seed);

  std::uint64_t samples() const { return samples_; }
  // The sample at a position: its pass is position / samples().
  std::uint64_t SampleAt(std::uint64_t position) const;

 private:
  Sampler(std::uint64_t samples, std::uint64_t seed) : samples_(samples), seed_(seed) {}

  std::uint64_t samples_;
  std::uint64_t seed_;
};

}  // namespace muster::training
