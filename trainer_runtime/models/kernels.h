#pragma once

// The loops of a transformer that are not matrix products, as tables of functions: one build for
// any processor, one with wider registers. Every sum has 16 running partial sums and one order of
// adding them up, and no multiplication is fused with an addition, so that all builds give the same
// bits.
//
// All matrices are row-major and dense unless a stride is given. "+=" outputs add to what is there.
// No function allocates, checks or fails; NaN and infinity go through. For the models only.

#include <cstddef>
#include <cstdint>

namespace muster::models {

template <typename T>
struct Kernels {
  const char* name;  // "baseline", "avx2"

  // y = (x - mean) * rstd * weight + bias per row; mean and rstd = 1/sqrt(variance + 1e-5) are
  // kept, one per row. Ba, Kiros, Hinton, "Layer Normalization", 2016, equation 4.
  void (*layer_norm)(std::size_t rows, std::size_t width, const T* x, const T* weight,
                     const T* bias, T* y, T* mean, T* rstd);
  // dx += rstd * (g - mean(g) - xhat * mean(g * xhat)) with g = dy * weight,
  // xhat = (x - mean) * rstd; dweight += sum over rows of dy * xhat; dbias += sum of dy.
  void (*layer_norm_backward)(std::size_t rows, std::size_t width, const T* x, const T* weight,
                              const T* mean, const T* rstd, const T* dy, T* dx, T* dweight,
                              T* dbias);

  // y += bias, per row.
  void (*add_bias)(std::size_t rows, std::size_t width, const T* bias, T* y);
  // y += bias + residual.
  void (*add_bias_and_residual)(std::size_t rows, std::size_t width, const T* bias,
                                const T* residual, T* y);
  // x += bias, then y = gelu(x), the tanh form of Hendrycks and Gimpel, "Gaussian Error Linear
  // Units", 2016: x * sigmoid(2 u), u = sqrt(2/pi) (x + 0.044715 x^3).
  void (*add_bias_and_gelu)(std::size_t rows, std::size_t width, const T* bias, T* x, T* y);
  // dy becomes dy * gelu'(x).
  void (*gelu_backward)(std::size_t count, const T* x, T* dy);
  // sum[c] += x[0][c] + x[1][c] + ..., row after row.
  void (*column_sum)(std::size_t rows, std::size_t width, const T* x, T* sum);
  // y += x.
  void (*add)(std::size_t count, const T* x, T* y);

  // Rows of scores, row r with `valid` + r columns that count and zero put into the rest up to
  // `columns`: scores become softmax(scores), log_sum_exp[r] what is needed to do it again.
  void (*causal_softmax)(std::size_t rows, std::size_t columns, std::size_t stride,
                         std::size_t valid, T* scores, T* log_sum_exp);
  // The same from a kept log_sum_exp: scores become exp(scores - log_sum_exp[r]).
  void (*causal_softmax_again)(std::size_t rows, std::size_t columns, std::size_t stride,
                               std::size_t valid, const T* log_sum_exp, T* scores);
  // dp becomes p * (dp - delta[r]) * scale: the gradient of softmax with delta = sum(p * dp).
  void (*softmax_backward)(std::size_t rows, std::size_t columns, std::size_t stride, const T* p,
                           const T* delta, T scale, T* dp);
  // out[r] = a[r] . b[r].
  void (*row_dot)(std::size_t rows, std::size_t width, const T* a, std::size_t a_stride, const T* b,
                  std::size_t b_stride, T* out);

  // Sum over rows of log(sum(exp(logits))) - logits[target], in nats; log_sum_exp is kept.
  double (*cross_entropy)(std::size_t rows, std::size_t vocabulary, const T* logits,
                          const std::int32_t* targets, T* log_sum_exp);
  // logits become scale * (softmax(logits) - onehot(target)).
  void (*cross_entropy_backward)(std::size_t rows, std::size_t vocabulary, const T* log_sum_exp,
                                 const std::int32_t* targets, T scale, T* logits);
};

// The build for any processor. T is float or double.
template <typename T>
const Kernels<T>& BaselineKernels();
// The build for AVX2; null where the processor or the compiler's target lacks it.
const Kernels<float>* Avx2Kernels();
// The best that this processor runs.
template <typename T>
const Kernels<T>& BestKernels();

}  // namespace muster::models
