// Attention alone, at lengths around the borders of its blocks, against finite differences.

#include "trainer_runtime/models/attention.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "trainer_runtime/models/counter_random.h"

namespace muster::models {
namespace {

std::vector<double> Values(std::size_t count, std::uint64_t seed) {
  std::vector<double> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = RandomNormal(seed, i);
  return values;
}

TEST(Attention, GradientsAroundTheBlockBorders) {
  for (std::size_t length : {1u, 2u, 63u, 64u, 65u, 128u, 130u}) {
    const AttentionShape shape{.sequences = 2, .length = length, .heads = 2, .head_width = 5};
    const std::size_t rows = shape.sequences * length, width = shape.width();
    std::vector<double> qkv = Values(rows * 3 * width, length);
    const std::vector<double> doutput = Values(rows * width, 7);
    std::vector<double> output(rows * width), kept(rows * shape.heads), dqkv(qkv.size(), 1e9);
    CausalAttention<double> attention;
    attention.Reserve(length);
    const Kernels<double>& kernels = BestKernels<double>();
    auto value = [&](const std::vector<double>& in) {
      attention.Forward(kernels, shape, in.data(), output.data(), kept.data());
      double sum = 0;
      for (std::size_t i = 0; i < output.size(); ++i) sum += output[i] * doutput[i];
      return sum;
    };
    value(qkv);
    attention.Backward(kernels, shape, qkv.data(), output.data(), kept.data(), doutput.data(),
                       dqkv.data());
    constexpr double kStep = 1e-5;
    for (std::uint64_t sample = 0; sample < 120; ++sample) {
      const std::size_t i = Random64(length, sample) % qkv.size();
      const double original = qkv[i];
      qkv[i] = original + kStep;
      const double above = value(qkv);
      qkv[i] = original - kStep;
      const double below = value(qkv);
      qkv[i] = original;
      EXPECT_NEAR(dqkv[i], (above - below) / (2 * kStep), 1e-7) << length << " element " << i;
    }
  }
}

}  // namespace
}  // namespace muster::models
