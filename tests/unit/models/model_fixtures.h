#pragma once

// Small models with weights that leave no gradient trivial, and token batches to go with them.

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "trainer_runtime/models/counter_random.h"
#include "trainer_runtime/models/gpt.h"

namespace muster::models {

template <typename T>
std::unique_ptr<BasicGpt<T>> MakeGpt(const GptConfig& config, std::uint64_t seed,
                                     const Kernels<T>& kernels = BestKernels<T>()) {
  auto model = BasicGpt<T>::Create(config, kernels);
  EXPECT_TRUE(model.ok()) << model.status().ToString();
  // Biases and norms too get random values: zeros and ones would hide mistakes in them. Rounded to
  // float, so that a model in double has the very same weights.
  for (const Tensor& tensor : (*model)->tensors()) {
    const bool norm_weight = tensor.shape.size() == 1 && tensor.name.ends_with("weight");
    for (std::size_t i = 0; i < tensor.count; ++i) {
      const double value = 0.2 * RandomNormal(seed, tensor.offset + i) + (norm_weight ? 1 : 0);
      (*model)->parameters()[tensor.offset + i] = static_cast<T>(static_cast<float>(value));
    }
  }
  return std::move(model).value();
}

struct OwnedBatch {
  std::vector<std::int32_t> tokens;
  std::size_t sequences = 0;
  std::size_t length = 0;

  Batch view() const { return {tokens, sequences, length}; }
};

inline OwnedBatch MakeBatch(std::size_t sequences, std::size_t length, std::size_t vocabulary,
                            std::uint64_t seed) {
  OwnedBatch batch{{}, sequences, length};
  for (std::size_t i = 0; i < sequences * (length + 1); ++i) {
    batch.tokens.push_back(static_cast<std::int32_t>(Random64(seed, i) % vocabulary));
  }
  return batch;
}

}  // namespace muster::models
