#pragma once

// Causal multi-head attention on the CPU: softmax(q k^T / sqrt(head width)) v, each position over
// itself and those before it (Vaswani et al., "Attention Is All You Need", 2017, section 3.2).
//
// Works in blocks of queries against the keys up to the block's end, so the half above the diagonal
// is not computed, and keeps one number a row instead of the matrix of probabilities; backward
// computes them again (Dao et al., "FlashAttention", 2022, section 3.1 and appendix B.4). For the
// models only.

#include <cstddef>

#include "trainer_runtime/models/buffer.h"
#include "trainer_runtime/models/kernels.h"

namespace muster::models {

struct AttentionShape {
  std::size_t sequences = 0;
  std::size_t length = 0;
  std::size_t heads = 0;
  std::size_t head_width = 0;

  std::size_t width() const { return heads * head_width; }
};

template <typename T>
class CausalAttention {
 public:
  // Reserves scratch for sequences up to `length`.
  void Reserve(std::size_t length);

  // qkv: [sequences * length, 3 width], a row is q, k, v, each with its heads side by side.
  // output: [sequences * length, width]. log_sum_exp: [sequences, heads, length], for Backward.
  void Forward(const Kernels<T>& kernels, const AttentionShape& shape, const T* qkv, T* output,
               T* log_sum_exp);
  // dqkv (the gradient of qkv, same shape) is overwritten.
  void Backward(const Kernels<T>& kernels, const AttentionShape& shape, const T* qkv,
                const T* output, const T* log_sum_exp, const T* doutput, T* dqkv);

 private:
  Buffer<T> scores_;     // [query block, length]
  Buffer<T> gradients_;  // [query block, length]
  Buffer<T> delta_;      // [query block]
};

extern template class CausalAttention<float>;
extern template class CausalAttention<double>;

}  // namespace muster::models
