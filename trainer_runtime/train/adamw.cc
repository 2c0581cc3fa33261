#include "trainer_runtime/train/adamw.h"

#include <algorithm>
#include <cmath>

#include "common/check.h"
#include "common/text.h"
#include "trainer_runtime/train/scalar_math.h"

namespace muster::training {

namespace {

struct Factors {
  float gradient;     // on the gradient
  float keep1, add1;  // beta1, 1 - beta1
  float keep2, add2;  // beta2, 1 - beta2
  float correction2;  // 1 / sqrt(1 - beta2^t)
  float epsilon;
  float rate;            // learning rate / (1 - beta1^t)
  float keep_parameter;  // 1 - learning rate * weight decay
};

// Plain loop over four arrays that do not overlap: the compiler vectorises it.
void Update(const Factors& f, std::size_t count, float* __restrict parameters,
            const float* __restrict gradients, float* __restrict first, float* __restrict second) {
  for (std::size_t i = 0; i < count; ++i) {
    const float g = gradients[i] * f.gradient;
    const float m = f.keep1 * first[i] + f.add1 * g;
    const float v = f.keep2 * second[i] + f.add2 * (g * g);
    first[i] = m;
    second[i] = v;
    const float denominator = std::sqrt(v) * f.correction2 + f.epsilon;
    parameters[i] = f.keep_parameter * parameters[i] - f.rate * (m / denominator);
  }
}

bool InUnitInterval(double value) { return value >= 0 && value < 1; }

}  // namespace

Status Validate(const AdamWConfig& config) {
  if (!InUnitInterval(config.beta1) || !InUnitInterval(config.beta2)) {
    return InvalidArgument("AdamW's betas must be at least 0 and below 1");
  }
  if (!std::isfinite(config.epsilon) || config.epsilon <= 0) {
    return InvalidArgument("AdamW's epsilon must be a positive number");
  }
  if (!std::isfinite(config.weight_decay) || config.weight_decay < 0) {
    return InvalidArgument("AdamW's weight decay must be a number, not below 0");
  }
  return OkStatus();
}

Result<AdamW> AdamW::Create(const AdamWConfig& config, std::span<const models::Tensor> tensors,
                            std::size_t first, std::size_t count) {
  MUSTER_RETURN_IF_ERROR(Validate(config));
  const std::size_t total = tensors.empty() ? 0 : tensors.back().offset + tensors.back().count;
  if (count > total || first > total - count) {
    return InvalidArgument(Concat("an optimizer for ", count, " parameters from ", first,
                                  " does not fit a model of ", total));
  }
  return AdamW(config, tensors, first, count);
}

AdamW::AdamW(const AdamWConfig& config, std::span<const models::Tensor> tensors, std::size_t first,
             std::size_t count)
    : config_(config), first_(first), first_moment_(count), second_moment_(count) {
  for (const models::Tensor& tensor : tensors) {
    const std::size_t begin = std::max(tensor.offset, first);
    const std::size_t end = std::min(tensor.offset + tensor.count, first + count);
    if (begin >= end) continue;
    const bool decayed = tensor.shape.size() >= 2;
    if (!segments_.empty() && segments_.back().decayed == decayed) {
      segments_.back().count += end - begin;
    } else {
      segments_.push_back({begin - first, end - begin, decayed});
    }
  }
}

void AdamW::Step(double learning_rate, double gradient_factor, std::span<float> parameters,
                 std::span<const float> gradients) {
  MUSTER_CHECK(parameters.size() == count() && gradients.size() == count(),
               "an optimizer's step takes its own range of parameters and gradients");
  ++updates_;
  Factors f{};
  f.gradient = static_cast<float>(gradient_factor);
  f.keep1 = static_cast<float>(config_.beta1);
  f.add1 = static_cast<float>(1 - config_.beta1);
  f.keep2 = static_cast<float>(config_.beta2);
  f.add2 = static_cast<float>(1 - config_.beta2);
  f.correction2 = static_cast<float>(1 / std::sqrt(1 - PowerOf(config_.beta2, updates_)));
  f.epsilon = static_cast<float>(config_.epsilon);
  f.rate = static_cast<float>(learning_rate / (1 - PowerOf(config_.beta1, updates_)));
  for (const Segment& segment : segments_) {
    f.keep_parameter =
        static_cast<float>(segment.decayed ? 1 - learning_rate * config_.weight_decay : 1.0);
    Update(f, segment.count, parameters.data() + segment.first, gradients.data() + segment.first,
           first_moment_.data() + segment.first, second_moment_.data() + segment.first);
  }
}

}  // namespace muster::training
