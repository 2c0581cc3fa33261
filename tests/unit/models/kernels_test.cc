// The kernels against plain loops in double, and the builds against each other bit by bit.

#include "trainer_runtime/models/kernels.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <vector>

#include "trainer_runtime/models/counter_random.h"

namespace muster::models {
namespace {

std::vector<float> Values(std::size_t count, std::uint64_t seed, double scale = 1.0) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = static_cast<float>(scale * RandomNormal(seed, i));
  }
  return values;
}

constexpr std::size_t kWidths[] = {1, 3, 15, 16, 17, 31, 32, 64, 100};

// All outputs of all kernels on one shape, one after the other.
std::vector<float> RunAll(const Kernels<float>& kernels, std::size_t rows, std::size_t width) {
  const std::size_t count = rows * width;
  const std::vector<float> x = Values(count, 1), weight = Values(width, 2), bias = Values(width, 3);
  const std::vector<float> residual = Values(count, 4);
  std::vector<float> all;
  auto keep = [&](const std::vector<float>& v) { all.insert(all.end(), v.begin(), v.end()); };
  std::vector<float> y(count), mean(rows), rstd(rows);
  kernels.layer_norm(rows, width, x.data(), weight.data(), bias.data(), y.data(), mean.data(),
                     rstd.data());
  keep(y), keep(mean), keep(rstd);
  std::vector<float> dx = Values(count, 5), dweight = Values(width, 6), dbias = Values(width, 7);
  kernels.layer_norm_backward(rows, width, x.data(), weight.data(), mean.data(), rstd.data(),
                              residual.data(), dx.data(), dweight.data(), dbias.data());
  keep(dx), keep(dweight), keep(dbias);
  kernels.add_bias(rows, width, bias.data(), y.data());
  kernels.add_bias_and_residual(rows, width, bias.data(), residual.data(), y.data());
  keep(y);
  std::vector<float> inner = x;
  kernels.add_bias_and_gelu(rows, width, bias.data(), inner.data(), y.data());
  keep(inner), keep(y);
  kernels.gelu_backward(count, inner.data(), y.data());
  keep(y);
  kernels.column_sum(rows, width, x.data(), dbias.data());
  keep(dbias);
  const std::size_t valid = width > rows ? width - rows + 1 : 1;
  const std::size_t columns = valid + rows - 1;
  std::vector<float> scores = Values(rows * columns, 8, 5.0), kept(rows), delta = Values(rows, 9);
  std::vector<float> again = scores;
  kernels.causal_softmax(rows, columns, columns, valid, scores.data(), kept.data());
  kernels.causal_softmax_again(rows, columns, columns, valid, kept.data(), again.data());
  keep(scores), keep(kept), keep(again);
  std::vector<float> dp = Values(rows * columns, 10);
  kernels.softmax_backward(rows, columns, columns, scores.data(), delta.data(), 0.5f, dp.data());
  keep(dp);
  kernels.row_dot(rows, width, x.data(), width, residual.data(), width, delta.data());
  keep(delta);
  std::vector<std::int32_t> targets(rows);
  for (std::size_t r = 0; r < rows; ++r) targets[r] = static_cast<std::int32_t>(r % width);
  std::vector<float> logits = x;
  const double loss =
      kernels.cross_entropy(rows, width, logits.data(), targets.data(), kept.data());
  keep({static_cast<float>(loss)}), keep(kept);
  kernels.cross_entropy_backward(rows, width, kept.data(), targets.data(), 0.25f, logits.data());
  keep(logits);
  return all;
}

TEST(Kernels, EveryBuildGivesTheSameBits) {
  if (Avx2Kernels() == nullptr) GTEST_SKIP() << "this processor has one build only";
  for (std::size_t rows : {std::size_t{1}, std::size_t{5}, std::size_t{20}}) {
    for (std::size_t width : kWidths) {
      const std::vector<float> a = RunAll(BaselineKernels<float>(), rows, width);
      const std::vector<float> b = RunAll(*Avx2Kernels(), rows, width);
      ASSERT_EQ(a.size(), b.size());
      EXPECT_EQ(std::memcmp(a.data(), b.data(), a.size() * sizeof(float)), 0)
          << rows << " rows of " << width;
    }
  }
}

TEST(Kernels, LayerNormIsThePlainFormula) {
  for (std::size_t width : kWidths) {
    const std::size_t rows = 3;
    const std::vector<float> x = Values(rows * width, 21), w = Values(width, 22);
    const std::vector<float> b = Values(width, 23);
    std::vector<float> y(rows * width), mean(rows), rstd(rows);
    BestKernels<float>().layer_norm(rows, width, x.data(), w.data(), b.data(), y.data(),
                                    mean.data(), rstd.data());
    for (std::size_t r = 0; r < rows; ++r) {
      double m = 0, variance = 0;
      const double count = static_cast<double>(width);
      for (std::size_t i = 0; i < width; ++i) m += static_cast<double>(x[r * width + i]) / count;
      for (std::size_t i = 0; i < width; ++i) {
        variance += std::pow(static_cast<double>(x[r * width + i]) - m, 2) / count;
      }
      for (std::size_t i = 0; i < width; ++i) {
        const double normal =
            (static_cast<double>(x[r * width + i]) - m) / std::sqrt(variance + 1e-5);
        EXPECT_NEAR(static_cast<double>(y[r * width + i]),
                    normal * static_cast<double>(w[i]) + static_cast<double>(b[i]), 1e-5);
      }
    }
  }
}

TEST(Kernels, GeluOverItsWholeRange) {
  std::vector<float> x, y;
  for (double v = -40; v <= 40; v += 0.01) x.push_back(static_cast<float>(v));
  for (float v : {-1e30f, -100.0f, 100.0f, 1e10f, 0.0f, -0.0f}) x.push_back(v);
  y.resize(x.size());
  const std::vector<float> zero(x.size());
  std::vector<float> input = x, slope(x.size(), 1.0f);
  BestKernels<float>().add_bias_and_gelu(1, x.size(), zero.data(), input.data(), y.data());
  BestKernels<float>().gelu_backward(x.size(), x.data(), slope.data());
  for (std::size_t i = 0; i + 6 < x.size(); ++i) {
    const double v = static_cast<double>(x[i]), c = std::sqrt(2 / M_PI);
    const double tanh = std::tanh(c * (v + 0.044715 * v * v * v));
    EXPECT_NEAR(static_cast<double>(y[i]), 0.5 * v * (1 + tanh), 1e-6 + 1e-6 * std::abs(v)) << v;
    const double expected =
        0.5 * (1 + tanh) + 0.5 * v * (1 - tanh * tanh) * c * (1 + 3 * 0.044715 * v * v);
    EXPECT_NEAR(static_cast<double>(slope[i]), expected, 2e-6) << v;
  }
  for (std::size_t i = x.size() - 6; i < x.size(); ++i) {
    EXPECT_FALSE(std::isnan(y[i])) << x[i];
  }
}

TEST(Kernels, SoftmaxRowsAddUpToOneAndEndAtTheDiagonal) {
  const std::size_t rows = 20, columns = 45, stride = 50, valid = 26;
  for (double scale : {0.1, 3.0, 40.0}) {
    std::vector<float> scores = Values(rows * stride, 31, scale), kept(rows);
    const std::vector<float> raw = scores;
    BestKernels<float>().causal_softmax(rows, columns, stride, valid, scores.data(), kept.data());
    for (std::size_t r = 0; r < rows; ++r) {
      double total = 0, exact = 0;
      for (std::size_t c = 0; c < valid + r; ++c) {
        exact += std::exp(static_cast<double>(raw[r * stride + c]));
      }
      EXPECT_NEAR(static_cast<double>(kept[r]), std::log(exact), 1e-5 + 1e-6 * std::log(exact));
      for (std::size_t c = 0; c < stride; ++c) {
        const double p = static_cast<double>(scores[r * stride + c]);
        if (c < valid + r) {
          EXPECT_NEAR(p, std::exp(static_cast<double>(raw[r * stride + c])) / exact, 1e-6);
          total += p;
        } else if (c < columns) {
          EXPECT_EQ(p, 0.0);
        } else {
          EXPECT_EQ(scores[r * stride + c], raw[r * stride + c]) << "wrote past the columns";
        }
      }
      EXPECT_NEAR(total, 1.0, 1e-5);
    }
  }
}

TEST(Kernels, CrossEntropyOfHugeLogitsIsFinite) {
  std::vector<float> logits(256, -3000.0f), kept(1);
  logits[7] = 3000.0f;
  std::int32_t target = 7;
  EXPECT_NEAR(BestKernels<float>().cross_entropy(1, 256, logits.data(), &target, kept.data()), 0,
              1e-6);
  target = 8;
  EXPECT_NEAR(BestKernels<float>().cross_entropy(1, 256, logits.data(), &target, kept.data()), 6000,
              1e-3);
}

// A row that is not a number must not come out as one: clamping and maxima are where it gets lost.
TEST(Kernels, NotANumberStaysNotANumber) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (std::size_t place : {std::size_t{0}, std::size_t{5}, std::size_t{20}, std::size_t{39}}) {
    std::vector<float> row(40, 1.0f), kept(1), y(40);
    const std::vector<float> zero(40);
    row[place] = nan;
    std::vector<float> scores = row;
    BestKernels<float>().causal_softmax(1, 40, 40, 40, scores.data(), kept.data());
    EXPECT_TRUE(std::isnan(kept[0])) << place;
    const std::int32_t target = 3;
    EXPECT_TRUE(
        std::isnan(BestKernels<float>().cross_entropy(1, 40, row.data(), &target, kept.data())));
    BestKernels<float>().add_bias_and_gelu(1, 40, zero.data(), row.data(), y.data());
    EXPECT_TRUE(std::isnan(y[place]));
  }
}

}  // namespace
}  // namespace muster::models
