#pragma once

// The kernels' bodies, included once by each build of them (see kernels.h for what each one does).

#include "trainer_runtime/models/kernels.h"
#include "trainer_runtime/models/lanes.h"

namespace muster::models {
namespace {

constexpr double kLayerNormEpsilon = 1e-5;  // GPT-2's
constexpr double kGeluCubic = 0.044715;
constexpr double kGeluScale = 0.79788456080286535588;  // sqrt(2 / pi)

template <typename T>
void LayerNorm(std::size_t rows, std::size_t width, const T* x, const T* weight, const T* bias,
               T* y, T* mean, T* rstd) {
  const T inverse_width = T(1) / static_cast<T>(width);
  for (std::size_t row = 0; row < rows; ++row, x += width, y += width) {
    Lanes<T> sum = Fill(T(0));
    for (std::size_t i = 0; i < width; i += kLanes) sum = sum + Load(x + i, width - i);
    const T row_mean = Sum(sum) * inverse_width;
    const Lanes<T> centre = Fill(row_mean);
    Lanes<T> squares = Fill(T(0));
    for (std::size_t i = 0; i < width; i += kLanes) {
      const Lanes<T> d = Load(x + i, width - i, row_mean) - centre;
      squares = squares + d * d;
    }
    const T variance = Sum(squares) * inverse_width;
    const T row_rstd =
        static_cast<T>(1.0 / __builtin_sqrt(static_cast<double>(variance) + kLayerNormEpsilon));
    const Lanes<T> factor = Fill(row_rstd);
    for (std::size_t i = 0; i < width; i += kLanes) {
      const std::size_t left = width - i;
      const Lanes<T> normal = (Load(x + i, left) - centre) * factor;
      Store(y + i, left, normal * Load(weight + i, left) + Load(bias + i, left));
    }
    mean[row] = row_mean;
    rstd[row] = row_rstd;
  }
}

template <typename T>
void LayerNormBackward(std::size_t rows, std::size_t width, const T* x, const T* weight,
                       const T* mean, const T* rstd, const T* dy, T* dx, T* dweight, T* dbias) {
  const T inverse_width = T(1) / static_cast<T>(width);
  for (std::size_t row = 0; row < rows; ++row, x += width, dy += width, dx += width) {
    const Lanes<T> centre = Fill(mean[row]);
    const Lanes<T> factor = Fill(rstd[row]);
    Lanes<T> sum = Fill(T(0));
    Lanes<T> sum_normal = Fill(T(0));
    for (std::size_t i = 0; i < width; i += kLanes) {
      const std::size_t left = width - i;
      const Lanes<T> d = Load(dy + i, left);
      const Lanes<T> normal = (Load(x + i, left) - centre) * factor;
      const Lanes<T> g = d * Load(weight + i, left);
      sum = sum + g;
      sum_normal = sum_normal + g * normal;
      Store(dweight + i, left, Load(dweight + i, left) + d * normal);
      Store(dbias + i, left, Load(dbias + i, left) + d);
    }
    const Lanes<T> mean_g = Fill(Sum(sum) * inverse_width);
    const Lanes<T> mean_g_normal = Fill(Sum(sum_normal) * inverse_width);
    for (std::size_t i = 0; i < width; i += kLanes) {
      const std::size_t left = width - i;
      const Lanes<T> normal = (Load(x + i, left) - centre) * factor;
      const Lanes<T> g = Load(dy + i, left) * Load(weight + i, left);
      const Lanes<T> change = (g - mean_g - normal * mean_g_normal) * factor;
      Store(dx + i, left, Load(dx + i, left) + change);
    }
  }
}

template <typename T>
void AddBias(std::size_t rows, std::size_t width, const T* bias, T* y) {
  for (std::size_t row = 0; row < rows; ++row, y += width) {
    for (std::size_t i = 0; i < width; i += kLanes) {
      const std::size_t left = width - i;
      Store(y + i, left, Load(y + i, left) + Load(bias + i, left));
    }
  }
}

template <typename T>
void AddBiasAndResidual(std::size_t rows, std::size_t width, const T* bias, const T* residual,
                        T* y) {
  for (std::size_t row = 0; row < rows; ++row, y += width, residual += width) {
    for (std::size_t i = 0; i < width; i += kLanes) {
      const std::size_t left = width - i;
      Store(y + i, left, (Load(y + i, left) + Load(bias + i, left)) + Load(residual + i, left));
    }
  }
}

// sigmoid(2 u) with u = sqrt(2/pi) (x + 0.044715 x^3).
template <typename T>
MUSTER_INLINE Lanes<T> GeluGate(const Lanes<T>& x) {
  const Lanes<T> inner = x * x * Fill(T(kGeluCubic)) + Fill(T(1));
  return Fill(T(1)) / (Fill(T(1)) + Exp(x * inner * Fill(T(-2 * kGeluScale))));
}

template <typename T>
void AddBiasAndGelu(std::size_t rows, std::size_t width, const T* bias, T* x, T* y) {
  for (std::size_t row = 0; row < rows; ++row, x += width, y += width) {
    for (std::size_t i = 0; i < width; i += kLanes) {
      const std::size_t left = width - i;
      const Lanes<T> biased = Load(x + i, left) + Load(bias + i, left);
      Store(x + i, left, biased);
      Store(y + i, left, biased * GeluGate(biased));
    }
  }
}

template <typename T>
void GeluBackward(std::size_t count, const T* x, T* dy) {
  for (std::size_t i = 0; i < count; i += kLanes) {
    const std::size_t left = count - i;
    const Lanes<T> v = Load(x + i, left);
    const Lanes<T> gate = GeluGate(v);
    const Lanes<T> inner = v * v * Fill(T(3 * kGeluCubic)) + Fill(T(1));
    const Lanes<T> slope = gate + v * gate * (Fill(T(1)) - gate) * inner * Fill(T(2 * kGeluScale));
    Store(dy + i, left, Load(dy + i, left) * slope);
  }
}

template <typename T>
void Add(std::size_t count, const T* x, T* y) {
  for (std::size_t i = 0; i < count; i += kLanes) {
    Store(y + i, count - i, Load(y + i, count - i) + Load(x + i, count - i));
  }
}

template <typename T>
void ColumnSum(std::size_t rows, std::size_t width, const T* x, T* sum) {
  for (std::size_t row = 0; row < rows; ++row, x += width) Add(width, x, sum);
}

template <typename T>
MUSTER_INLINE T RowMaximum(std::size_t count, const T* x) {
  Lanes<T> largest = Load(x, count, x[0]);
  for (std::size_t i = kLanes; i < count; i += kLanes) {
    largest = Max(largest, Load(x + i, count - i, x[0]));
  }
  return Largest(largest);
}

template <typename T>
void CausalSoftmax(std::size_t rows, std::size_t columns, std::size_t stride, std::size_t valid,
                   T* scores, T* log_sum_exp) {
  for (std::size_t row = 0; row < rows; ++row, scores += stride, ++valid) {
    const T largest = RowMaximum(valid, scores);
    const Lanes<T> shift = Fill(largest);
    Lanes<T> sum = Fill(T(0));
    for (std::size_t i = 0; i < valid; i += kLanes) {
      const Lanes<T> e = Exp(Load(scores + i, valid - i) - shift);
      Store(scores + i, valid - i, e);
      sum = sum + Load(scores + i, valid - i);
    }
    const T total = Sum(sum);
    const Lanes<T> factor = Fill(T(1) / total);
    for (std::size_t i = 0; i < valid; i += kLanes) {
      Store(scores + i, valid - i, Load(scores + i, valid - i) * factor);
    }
    for (std::size_t i = valid; i < columns; ++i) scores[i] = T(0);
    log_sum_exp[row] =
        static_cast<T>(static_cast<double>(largest) + __builtin_log(static_cast<double>(total)));
  }
}

template <typename T>
void CausalSoftmaxAgain(std::size_t rows, std::size_t columns, std::size_t stride,
                        std::size_t valid, const T* log_sum_exp, T* scores) {
  for (std::size_t row = 0; row < rows; ++row, scores += stride, ++valid) {
    const Lanes<T> shift = Fill(log_sum_exp[row]);
    for (std::size_t i = 0; i < valid; i += kLanes) {
      Store(scores + i, valid - i, Exp(Load(scores + i, valid - i) - shift));
    }
    for (std::size_t i = valid; i < columns; ++i) scores[i] = T(0);
  }
}

template <typename T>
void SoftmaxBackward(std::size_t rows, std::size_t columns, std::size_t stride, const T* p,
                     const T* delta, T scale, T* dp) {
  const Lanes<T> factor = Fill(scale);
  for (std::size_t row = 0; row < rows; ++row, p += stride, dp += stride) {
    const Lanes<T> shift = Fill(delta[row]);
    for (std::size_t i = 0; i < columns; i += kLanes) {
      const std::size_t left = columns - i;
      Store(dp + i, left, Load(p + i, left) * (Load(dp + i, left) - shift) * factor);
    }
  }
}

template <typename T>
void RowDot(std::size_t rows, std::size_t width, const T* a, std::size_t a_stride, const T* b,
            std::size_t b_stride, T* out) {
  for (std::size_t row = 0; row < rows; ++row, a += a_stride, b += b_stride) {
    Lanes<T> sum = Fill(T(0));
    for (std::size_t i = 0; i < width; i += kLanes) {
      sum = sum + Load(a + i, width - i) * Load(b + i, width - i);
    }
    out[row] = Sum(sum);
  }
}

template <typename T>
double CrossEntropy(std::size_t rows, std::size_t vocabulary, const T* logits,
                    const std::int32_t* targets, T* log_sum_exp) {
  double loss = 0;
  for (std::size_t row = 0; row < rows; ++row, logits += vocabulary) {
    const T largest = RowMaximum(vocabulary, logits);
    const Lanes<T> shift = Fill(largest);
    Lanes<T> sum = Fill(T(0));
    std::size_t i = 0;
    for (; i + kLanes <= vocabulary; i += kLanes) sum = sum + Exp(Load(logits + i, kLanes) - shift);
    double total = static_cast<double>(Sum(sum));
    for (; i < vocabulary; ++i) {
      total += static_cast<double>(Sum(Exp(Fill(logits[i]) - shift))) / kLanes;
    }
    const double result = static_cast<double>(largest) + __builtin_log(total);
    log_sum_exp[row] = static_cast<T>(result);
    loss += result - static_cast<double>(logits[targets[row]]);
  }
  return loss;
}

template <typename T>
void CrossEntropyBackward(std::size_t rows, std::size_t vocabulary, const T* log_sum_exp,
                          const std::int32_t* targets, T scale, T* logits) {
  const Lanes<T> factor = Fill(scale);
  for (std::size_t row = 0; row < rows; ++row, logits += vocabulary) {
    const Lanes<T> shift = Fill(log_sum_exp[row]);
    for (std::size_t i = 0; i < vocabulary; i += kLanes) {
      const std::size_t left = vocabulary - i;
      Store(logits + i, left, Exp(Load(logits + i, left) - shift) * factor);
    }
    logits[targets[row]] -= scale;
  }
}

template <typename T>
constexpr Kernels<T> MakeKernels(const char* name) {
  return {.name = name,
          .layer_norm = LayerNorm<T>,
          .layer_norm_backward = LayerNormBackward<T>,
          .add_bias = AddBias<T>,
          .add_bias_and_residual = AddBiasAndResidual<T>,
          .add_bias_and_gelu = AddBiasAndGelu<T>,
          .gelu_backward = GeluBackward<T>,
          .column_sum = ColumnSum<T>,
          .add = Add<T>,
          .causal_softmax = CausalSoftmax<T>,
          .causal_softmax_again = CausalSoftmaxAgain<T>,
          .softmax_backward = SoftmaxBackward<T>,
          .row_dot = RowDot<T>,
          .cross_entropy = CrossEntropy<T>,
          .cross_entropy_backward = CrossEntropyBackward<T>};
}

}  // namespace
}  // namespace muster::models
