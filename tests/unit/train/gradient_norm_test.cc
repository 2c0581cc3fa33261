#include "trainer_runtime/train/gradient_norm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "trainer_runtime/models/counter_random.h"

namespace muster::training {
namespace {

TEST(GradientNorm, AnySizeIsSummedUp) {
  for (std::size_t size : {0u, 1u, 7u, 8u, 9u, 15u, 16u, 1000u}) {
    std::vector<float> values;
    double expected = 0;
    for (std::size_t i = 0; i < size; ++i) {
      values.push_back(static_cast<float>(models::RandomNormal(1, i)));
      expected += std::pow(static_cast<double>(values.back()), 2);
    }
    EXPECT_NEAR(SumOfSquares(values), expected, 1e-12 * expected) << size;
  }
}

TEST(GradientNorm, HugeGradientsAreFiniteAndBadOnesAreNot) {
  std::vector<float> values(100, 1e30f);
  EXPECT_NEAR(std::sqrt(SumOfSquares(values)), 1e31, 1e25);
  for (float bad : {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
                    std::numeric_limits<float>::quiet_NaN()}) {
    for (std::size_t place : {0u, 50u, 99u}) {
      std::vector<float> damaged = values;
      damaged[place] = bad;
      EXPECT_FALSE(std::isfinite(SumOfSquares(damaged)));
    }
  }
}

TEST(GradientNorm, ClipsToTheLimit) {
  EXPECT_EQ(ClipFactor(0.5, 1.0), 1.0);
  EXPECT_EQ(ClipFactor(1.0, 1.0), 1.0);
  EXPECT_EQ(ClipFactor(4.0, 1.0), 0.25);
  EXPECT_EQ(ClipFactor(4.0, 0.0), 1.0) << "no limit";
  EXPECT_EQ(ClipFactor(0.0, 1.0), 1.0);
}

}  // namespace
}  // namespace muster::training
