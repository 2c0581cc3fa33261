#include "trainer_runtime/train/learning_rate.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "trainer_runtime/train/scalar_math.h"

namespace muster::training {
namespace {

TEST(LearningRate, Table) {
  const LearningRateSchedule schedule{1.0, 0.1, 4, 12};
  const struct {
    std::uint64_t step;
    double rate;
  } table[] = {
      {0, 0.25},
      {1, 0.5},
      {2, 0.75},
      {3, 1.0},  // warm-up
      {4, 1.0},  // the cosine's top
      {6, 0.1 + 0.45 * (1 + std::sqrt(0.5))},
      {8, 0.55},  // its middle
      {10, 0.1 + 0.45 * (1 - std::sqrt(0.5))},
      {12, 0.1},
      {13, 0.1},
      {1'000'000'000'000, 0.1},
  };
  for (const auto& [step, rate] : table) {
    EXPECT_NEAR(LearningRateAt(schedule, step), rate, 1e-12) << step;
  }
}

TEST(LearningRate, WithoutWarmupAndWithNothingElse) {
  EXPECT_DOUBLE_EQ(LearningRateAt({2.0, 0.0, 0, 10}, 0), 2.0);
  EXPECT_DOUBLE_EQ(LearningRateAt({2.0, 0.5, 10, 10}, 9), 2.0);
  EXPECT_DOUBLE_EQ(LearningRateAt({2.0, 0.5, 10, 10}, 10), 0.5);
}

TEST(LearningRate, FallsAllTheWayAfterTheWarmup) {
  const LearningRateSchedule schedule{1e-3, 1e-4, 10, 500};
  for (std::uint64_t step = 11; step < 500; ++step) {
    EXPECT_LT(LearningRateAt(schedule, step), LearningRateAt(schedule, step - 1)) << step;
  }
}

TEST(LearningRate, RefusesSenselessSchedules) {
  EXPECT_TRUE(Validate(LearningRateSchedule{1.0, 0.1, 4, 12}).ok());
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const LearningRateSchedule bad[] = {
      {0, 0, 0, 1},   {-1, 0, 0, 1}, {nan, 0, 0, 1},
      {1, nan, 0, 1}, {1, 2, 0, 1},  {1, -1, 0, 1},
      {1, 0, 5, 4},   {1, 0, 0, 0},  {std::numeric_limits<double>::infinity(), 0, 0, 1}};
  for (const LearningRateSchedule& schedule : bad) {
    EXPECT_EQ(Validate(schedule).code(), StatusCode::kInvalidArgument);
  }
}

TEST(ScalarMath, CosineAndPowerAreTheLibrarys) {
  for (int i = 0; i <= 1000; ++i) {
    const double x = i / 1000.0;
    EXPECT_NEAR(CosinePi(x), std::cos(M_PI * x), 2e-15) << x;
  }
  EXPECT_EQ(CosinePi(0.5), 0.0);
  for (std::uint64_t exponent : {0u, 1u, 2u, 3u, 10u, 1000u, 123456u}) {
    EXPECT_NEAR(PowerOf(0.999, exponent), std::pow(0.999, static_cast<double>(exponent)), 1e-13);
  }
}

}  // namespace
}  // namespace muster::training
