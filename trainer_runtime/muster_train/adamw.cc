#include "trainer_runtime/muster_train/adamw.h"

#include <array>
#include <cmath>

namespace muster::train_program {

void ApplyAdamW(const AdamWStep& step, std::span<float> weights, std::span<const float> gradients,
                std::span<float> moment1, std::span<float> moment2) {
  const double correction1 = 1 - std::pow(step.beta1, static_cast<double>(step.number));
  const double correction2 = 1 - std::pow(step.beta2, static_cast<double>(step.number));
  const auto rate = static_cast<float>(step.learning_rate / correction1);
  const auto root_scale = static_cast<float>(1 / std::sqrt(correction2));
  const auto keep = static_cast<float>(1 - step.learning_rate * step.weight_decay);
  const auto scale = static_cast<float>(step.gradient_scale);
  const auto beta1 = static_cast<float>(step.beta1), beta2 = static_cast<float>(step.beta2);
  const auto epsilon = static_cast<float>(step.epsilon);
  float* __restrict w = weights.data();
  const float* __restrict g = gradients.data();
  float* __restrict m = moment1.data();
  float* __restrict v = moment2.data();
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const float gradient = g[i] * scale;
    m[i] = beta1 * m[i] + (1 - beta1) * gradient;
    v[i] = beta2 * v[i] + (1 - beta2) * gradient * gradient;
    w[i] = w[i] * keep - rate * m[i] / (std::sqrt(v[i]) * root_scale + epsilon);
  }
}

double SumOfSquares(std::span<const float> values) {
  constexpr std::size_t kLanes = 8;
  std::array<double, kLanes> sums{};
  std::size_t i = 0;
  for (; i + kLanes <= values.size(); i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      const double value = values[i + lane];
      sums[lane] += value * value;
    }
  }
  for (std::size_t lane = 0; i < values.size(); ++i, ++lane) {
    const double value = values[i];
    sums[lane] += value * value;
  }
  double total = 0;
  for (const double sum : sums) total += sum;
  return total;
}

}  // namespace muster::train_program
