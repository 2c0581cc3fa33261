#pragma once

// The inner loops of reductions. Pure.

#include <cstddef>

namespace muster::comm {

// target[i] = left[i] + right[i]. `target` may be either of the others.
void Add(float* target, const float* left, const float* right, std::size_t count);

}  // namespace muster::comm
