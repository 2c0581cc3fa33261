#pragma once

// The length of the gradient, and the factor that clips it. One order of summation, whatever the
// processor: the same gradients give the same bits on every replica. Pure.

#include <span>

namespace muster::training {

// In double, by eight running sums in element order: no overflow, hardly any rounding. Not finite
// exactly when an element is not.
double SumOfSquares(std::span<const float> values);

// What to multiply gradients of that length with so that it is at most `limit`; 1 if it is, or if
// limit is 0 (no clipping). Pascanu, Mikolov, Bengio, "On the difficulty of training recurrent
// neural networks", 2013, algorithm 1. REQUIRES a finite norm: vote first.
double ClipFactor(double norm, double limit);

}  // namespace muster::training
