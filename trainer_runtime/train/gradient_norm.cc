#include "trainer_runtime/train/gradient_norm.h"

#include <cmath>
#include <cstddef>

#include "common/check.h"

namespace muster::training {

double SumOfSquares(std::span<const float> values) {
  constexpr std::size_t kLanes = 8;
  double sum[kLanes] = {};
  const float* p = values.data();
  const std::size_t whole = values.size() / kLanes * kLanes;
  for (std::size_t i = 0; i < whole; i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      const double value = static_cast<double>(p[i + lane]);
      sum[lane] += value * value;
    }
  }
  for (std::size_t i = whole; i < values.size(); ++i) {
    const double value = static_cast<double>(p[i]);
    sum[i - whole] += value * value;
  }
  for (std::size_t half = kLanes / 2; half > 0; half /= 2) {
    for (std::size_t lane = 0; lane < half; ++lane) sum[lane] += sum[lane + half];
  }
  return sum[0];
}

double ClipFactor(double norm, double limit) {
  MUSTER_CHECK(std::isfinite(norm), "gradients that are not finite are voted on, not clipped");
  return limit > 0 && norm > limit ? limit / norm : 1.0;
}

}  // namespace muster::training
