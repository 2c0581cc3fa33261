#pragma once

// AdamW (Loshchilov, Hutter, "Decoupled Weight Decay Regularization", 2019), element by element,
// and the length of a gradient. The same inputs give the same bits in any build. Pure.

#include <cstdint>
#include <span>

namespace muster::train_program {

struct AdamWStep {
  double learning_rate = 0;
  double beta1 = 0, beta2 = 0, epsilon = 0;
  double weight_decay = 0;
  double gradient_scale = 1;  // multiplies the gradient: clipping
  std::uint64_t number = 1;   // of the step, from 1: for the correction of the moments' bias
};

// All spans are as long.
void ApplyAdamW(const AdamWStep& step, std::span<float> weights, std::span<const float> gradients,
                std::span<float> moment1, std::span<float> moment2);

// Sum of squares, in double, in one order whatever the processor. NaN and infinity go through.
double SumOfSquares(std::span<const float> values);

}  // namespace muster::train_program
