// The optimizer against a plain reading of its paper, in double.

#include "trainer_runtime/train/adamw.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "tests/unit/train/fixtures.h"

namespace muster::training {
namespace {

float Gradient(std::uint64_t step, std::size_t i) {
  return static_cast<float>(models::RandomNormal(1000 + step, i));
}

TEST(AdamW, IsTheFormulaOfThePaper) {
  const models::TensorTable table = MakeTable();
  const std::size_t count = table.count();
  const AdamWConfig config{0.9, 0.97, 1e-8, 0.3};
  auto optimizer = AdamW::Create(config, table.tensors(), 0, count);
  ASSERT_TRUE(optimizer.ok());
  OwnedState state(0, count, count, 1);
  std::vector<float> parameters(state.arrays.parameters.begin(), state.arrays.parameters.end());
  std::vector<double> p(parameters.begin(), parameters.end()), m(count), v(count);
  std::vector<float> gradients(count);
  for (std::uint64_t step = 1; step <= 50; ++step) {
    const double rate = 0.01 / static_cast<double>(step), factor = step % 3 == 0 ? 0.5 : 1.0;
    for (std::size_t i = 0; i < count; ++i) gradients[i] = Gradient(step, i);
    optimizer->Step(rate, factor, parameters, gradients);
    for (const models::Tensor& tensor : table.tensors()) {
      const double decay = tensor.shape.size() >= 2 ? config.weight_decay : 0.0;
      for (std::size_t i = tensor.offset; i < tensor.offset + tensor.count; ++i) {
        const double g = static_cast<double>(gradients[i]) * factor;
        m[i] = config.beta1 * m[i] + (1 - config.beta1) * g;
        v[i] = config.beta2 * v[i] + (1 - config.beta2) * g * g;
        const double t = static_cast<double>(step);
        const double m_hat = m[i] / (1 - std::pow(config.beta1, t));
        const double v_hat = v[i] / (1 - std::pow(config.beta2, t));
        p[i] = p[i] - rate * decay * p[i] - rate * m_hat / (std::sqrt(v_hat) + config.epsilon);
      }
    }
    for (std::size_t i = 0; i < count; ++i) {
      ASSERT_NEAR(static_cast<double>(parameters[i]), p[i], 1e-5) << "step " << step << " of " << i;
    }
  }
  EXPECT_EQ(optimizer->updates(), 50u);
}

TEST(AdamW, DecaysMatricesOnly) {
  const models::TensorTable table = MakeTable();
  auto optimizer = AdamW::Create({0.9, 0.95, 1e-8, 0.5}, table.tensors(), 0, table.count());
  std::vector<float> parameters(table.count(), 2.0f);
  const std::vector<float> none(table.count());
  optimizer->Step(0.1, 1.0, parameters, none);
  for (const models::Tensor& tensor : table.tensors()) {
    const float expected = tensor.shape.size() >= 2 ? 2.0f * 0.95f : 2.0f;
    for (std::size_t i = tensor.offset; i < tensor.offset + tensor.count; ++i) {
      EXPECT_FLOAT_EQ(parameters[i], expected) << tensor.name;
    }
  }
}

// Partitions at any border do together what one optimizer does, bit by bit.
TEST(AdamW, PartsAreTheWhole) {
  const models::TensorTable table = MakeTable();
  const std::size_t count = table.count();
  for (std::size_t parts : {2u, 3u, 7u}) {
    OwnedState start(0, count, count, 2);
    std::vector<float> whole(start.arrays.parameters.begin(), start.arrays.parameters.end());
    std::vector<float> split = whole, gradients(count);
    auto one = AdamW::Create({}, table.tensors(), 0, count);
    std::vector<AdamW> several;
    for (std::size_t part = 0; part < parts; ++part) {
      const std::size_t first = count * part / parts, last = count * (part + 1) / parts;
      auto optimizer = AdamW::Create({}, table.tensors(), first, last - first);
      ASSERT_TRUE(optimizer.ok());
      several.push_back(std::move(optimizer).value());
    }
    for (std::uint64_t step = 0; step < 5; ++step) {
      for (std::size_t i = 0; i < count; ++i) gradients[i] = Gradient(step, i);
      one->Step(0.01, 1.0, whole, gradients);
      for (AdamW& optimizer : several) {
        optimizer.Step(
            0.01, 1.0, std::span(split).subspan(optimizer.first(), optimizer.count()),
            std::span<const float>(gradients).subspan(optimizer.first(), optimizer.count()));
      }
    }
    EXPECT_EQ(std::memcmp(whole.data(), split.data(), count * sizeof(float)), 0) << parts;
  }
}

TEST(AdamW, RefusesSenselessSettings) {
  const models::TensorTable table = MakeTable();
  auto code = [&](const AdamWConfig& config, std::size_t first, std::size_t count) {
    return AdamW::Create(config, table.tensors(), first, count).status().code();
  };
  EXPECT_EQ(code({}, 0, table.count()), StatusCode::kOk);
  EXPECT_EQ(code({}, table.count(), 0), StatusCode::kOk) << "a rank may own nothing";
  EXPECT_EQ(code({}, 1, table.count()), StatusCode::kInvalidArgument);
  EXPECT_EQ(code({}, static_cast<std::size_t>(-1), 2), StatusCode::kInvalidArgument);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const AdamWConfig& config :
       {AdamWConfig{1.0, 0.9, 1e-8, 0}, AdamWConfig{-0.1, 0.9, 1e-8, 0},
        AdamWConfig{0.9, nan, 1e-8, 0}, AdamWConfig{0.9, 0.9, 0, 0}, AdamWConfig{0.9, 0.9, nan, 0},
        AdamWConfig{0.9, 0.9, 1e-8, -1}, AdamWConfig{0.9, 0.9, 1e-8, nan}}) {
    EXPECT_EQ(code(config, 0, 1), StatusCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace muster::training
