#include "trainer_runtime/models/attention.h"

#include <algorithm>
#include <cmath>

#include "trainer_runtime/models/matrix.h"

namespace muster::models {

namespace {

// Queries per block: large enough for the matrix kernel, small enough that a block of scores stays
// in the second-level cache and little above the diagonal is computed.
constexpr std::size_t kQueryBlock = 64;

}  // namespace

template <typename T>
void CausalAttention<T>::Reserve(std::size_t length) {
  scores_.Reserve(kQueryBlock * length);
  gradients_.Reserve(kQueryBlock * length);
  delta_.Reserve(kQueryBlock);
}

template <typename T>
void CausalAttention<T>::Forward(const Kernels<T>& kernels, const AttentionShape& shape,
                                 const T* qkv, T* output, T* log_sum_exp) {
  const std::size_t width = shape.width(), stride = 3 * width, length = shape.length;
  const T scale = static_cast<T>(1.0 / std::sqrt(static_cast<double>(shape.head_width)));
  T* scores = scores_.data();
  for (std::size_t sequence = 0; sequence < shape.sequences; ++sequence) {
    for (std::size_t head = 0; head < shape.heads; ++head) {
      const T* q = qkv + sequence * length * stride + head * shape.head_width;
      const T* k = q + width;
      const T* v = k + width;
      T* out = output + sequence * length * width + head * shape.head_width;
      T* kept = log_sum_exp + (sequence * shape.heads + head) * length;
      for (std::size_t first = 0; first < length; first += kQueryBlock) {
        const std::size_t rows = std::min(kQueryBlock, length - first);
        const std::size_t keys = first + rows;
        MatrixProduct(rows, keys, shape.head_width, scale, {q + first * stride, stride},
                      {k, stride, true}, T(0), scores, length);
        kernels.causal_softmax(rows, keys, length, first + 1, scores, kept + first);
        MatrixProduct(rows, shape.head_width, keys, T(1), {scores, length}, {v, stride}, T(0),
                      out + first * width, width);
      }
    }
  }
}

template <typename T>
void CausalAttention<T>::Backward(const Kernels<T>& kernels, const AttentionShape& shape,
                                  const T* qkv, const T* output, const T* log_sum_exp,
                                  const T* doutput, T* dqkv) {
  const std::size_t width = shape.width(), stride = 3 * width, length = shape.length;
  const std::size_t depth = shape.head_width;
  const T scale = static_cast<T>(1.0 / std::sqrt(static_cast<double>(depth)));
  T* p = scores_.data();
  T* dp = gradients_.data();
  for (std::size_t sequence = 0; sequence < shape.sequences; ++sequence) {
    for (std::size_t head = 0; head < shape.heads; ++head) {
      const std::size_t in = sequence * length * stride + head * depth;
      const std::size_t out = sequence * length * width + head * depth;
      const T *q = qkv + in, *k = q + width, *v = k + width;
      T *dq = dqkv + in, *dk = dq + width, *dv = dk + width;
      const T* kept = log_sum_exp + (sequence * shape.heads + head) * length;
      // From the last block to the first: it alone meets every key, so it sets dk and dv and the
      // others add to them.
      const std::size_t last = (length - 1) / kQueryBlock * kQueryBlock;
      for (std::size_t first = last;; first -= kQueryBlock) {
        const std::size_t rows = std::min(kQueryBlock, length - first);
        const std::size_t keys = first + rows;
        const T add = first == last ? T(0) : T(1);
        const Operand<T> block_q{q + first * stride, stride};
        const Operand<T> block_dout{doutput + out + first * width, width};
        MatrixProduct(rows, keys, depth, scale, block_q, {k, stride, true}, T(0), p, length);
        kernels.causal_softmax_again(rows, keys, length, first + 1, kept + first, p);
        MatrixProduct(keys, depth, rows, T(1), {p, length, true}, block_dout, add, dv, stride);
        MatrixProduct(rows, keys, depth, T(1), block_dout, {v, stride, true}, T(0), dp, length);
        kernels.row_dot(rows, depth, block_dout.data, width, output + out + first * width, width,
                        delta_.data());
        kernels.softmax_backward(rows, keys, length, p, delta_.data(), scale, dp);
        MatrixProduct(rows, depth, keys, T(1), {dp, length}, {k, stride}, T(0), dq + first * stride,
                      stride);
        MatrixProduct(keys, depth, rows, T(1), {dp, length, true}, block_q, add, dk, stride);
        if (first == 0) break;
      }
    }
  }
}

template class CausalAttention<float>;
template class CausalAttention<double>;

}  // namespace muster::models
