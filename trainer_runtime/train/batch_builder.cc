#include "trainer_runtime/train/batch_builder.h"

#include <algorithm>

namespace muster::training {

BatchBuilder::BatchBuilder(const Corpus& corpus, std::uint64_t seed)
    // An open corpus has at least one window.
    : corpus_(corpus), sampler_(Sampler::Create(corpus.windows(), seed).value()) {}

models::Batch BatchBuilder::Build(std::uint64_t samples_consumed, const Slice& slice) {
  const std::size_t window = corpus_.context() + 1;
  tokens_.resize(static_cast<std::size_t>(slice.count) * window);
  auto out = tokens_.begin();
  for (std::uint64_t i = 0; i < slice.count; ++i) {
    const auto bytes = corpus_.Window(sampler_.SampleAt(samples_consumed + slice.first + i));
    out = std::copy(bytes.begin(), bytes.end(), out);
  }
  return {tokens_, static_cast<std::size_t>(slice.count), corpus_.context()};
}

}  // namespace muster::training
