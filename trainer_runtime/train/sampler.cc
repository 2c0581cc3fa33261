#include "trainer_runtime/train/sampler.h"

#include <algorithm>

#include "common/check.h"
#include "common/text.h"
#include "trainer_runtime/models/counter_random.h"
#include "trainer_runtime/train/permutation.h"

namespace muster::training {

Slice RankSlice(std::uint64_t global_batch, std::uint64_t rank, std::uint64_t world_size) {
  MUSTER_CHECK(rank < world_size, "a rank is below the world size");
  const std::uint64_t each = global_batch / world_size;
  const std::uint64_t more = global_batch % world_size;
  return {rank * each + std::min(rank, more), each + (rank < more ? 1 : 0)};
}

Result<Sampler> Sampler::Create(std::uint64_t samples, std::uint64_t seed) {
  if (samples < 1 || samples > (std::uint64_t{1} << 62)) {
    return InvalidArgument(Concat("a data set has ", samples, " samples; it needs at least one"));
  }
  return Sampler(samples, seed);
}

std::uint64_t Sampler::SampleAt(std::uint64_t position) const {
  const std::uint64_t pass = position / samples_;
  return Permutation(samples_, models::Random64(seed_, pass)).At(position % samples_);
}

}  // namespace muster::training
