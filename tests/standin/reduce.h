#pragma once

// Sizes of NCCL's types, and the element-wise operations of reductions. Pure.

#include <cstddef>

#include "trainer_runtime/comm/nccl_api.h"

namespace muster::standin {

using comm::nccl::DataType;
using comm::nccl::Reduction;

// 0 for a type that the stand-in does not know.
std::size_t SizeOf(DataType type);
// Whether Combine knows both.
bool IsReducible(DataType type, Reduction reduction);

// target[i] = left[i] op right[i]; `target` may be one of the others. An average is a sum here.
void Combine(void* target, const void* left, const void* right, std::size_t count, DataType type,
             Reduction reduction);
// What makes an average of a sum.
void Divide(void* target, std::size_t count, DataType type, int by);

}  // namespace muster::standin
