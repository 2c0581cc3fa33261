#pragma once

// Lanes<T>: sixteen numbers worked on at once, held in as many vector registers as it takes.
//
// Included by the kernel builds only, each compiled for its own instruction set; everything is in
// an unnamed namespace so that no build's code is linked into another. Standard headers with inline
// functions are kept out for the same reason.

#include <cstddef>
#include <cstdint>

namespace muster::models {
namespace {

#if defined(__AVX__)
constexpr std::size_t kNativeBytes = 32;
#else
constexpr std::size_t kNativeBytes = 16;
#endif
constexpr std::size_t kLanes = 16;

template <typename T>
struct NativeVector;
template <>
struct NativeVector<float> {
  typedef float Type __attribute__((vector_size(kNativeBytes)));
  typedef float Unaligned __attribute__((vector_size(kNativeBytes), aligned(4), may_alias));
  typedef std::int32_t Integer __attribute__((vector_size(kNativeBytes)));
};
template <>
struct NativeVector<double> {
  typedef double Type __attribute__((vector_size(kNativeBytes)));
  typedef double Unaligned __attribute__((vector_size(kNativeBytes), aligned(8), may_alias));
};

#define MUSTER_INLINE inline __attribute__((always_inline))

template <typename T>
struct Lanes {
  using Native = typename NativeVector<T>::Type;
  static constexpr std::size_t kParts = kLanes * sizeof(T) / kNativeBytes;
  static constexpr std::size_t kPerPart = kLanes / kParts;
  Native part[kParts];
};

template <typename T>
MUSTER_INLINE Lanes<T> Fill(T value) {
  Lanes<T> lanes;
  for (std::size_t i = 0; i < Lanes<T>::kParts; ++i) {
    lanes.part[i] = value - typename Lanes<T>::Native{};
  }
  return lanes;
}

// All sixteen from anywhere. Part by part through registers: copying the whole struct would go by
// way of the stack.
template <typename T>
MUSTER_INLINE Lanes<T> LoadAll(const T* p) {
  using Unaligned = typename NativeVector<T>::Unaligned;
  Lanes<T> lanes;
  for (std::size_t i = 0; i < Lanes<T>::kParts; ++i) {
    lanes.part[i] = *reinterpret_cast<const Unaligned*>(p + i * Lanes<T>::kPerPart);
  }
  return lanes;
}

template <typename T>
MUSTER_INLINE void StoreAll(T* p, const Lanes<T>& lanes) {
  using Unaligned = typename NativeVector<T>::Unaligned;
  for (std::size_t i = 0; i < Lanes<T>::kParts; ++i) {
    *reinterpret_cast<Unaligned*>(p + i * Lanes<T>::kPerPart) = lanes.part[i];
  }
}

// The first `remaining` numbers from `p` (16 at most), `fill` behind them.
template <typename T>
MUSTER_INLINE Lanes<T> Load(const T* p, std::size_t remaining, T fill = T(0)) {
  if (remaining >= kLanes) [[likely]]
    return LoadAll(p);
  T padded[kLanes];
  for (std::size_t i = 0; i < kLanes; ++i) padded[i] = i < remaining ? p[i] : fill;
  return LoadAll(padded);
}

template <typename T>
MUSTER_INLINE void Store(T* p, std::size_t remaining, const Lanes<T>& lanes) {
  if (remaining >= kLanes) [[likely]]
    return StoreAll(p, lanes);
  T padded[kLanes];
  StoreAll(padded, lanes);
  for (std::size_t i = 0; i < remaining; ++i) p[i] = padded[i];
}

#define MUSTER_LANES_OPERATOR(op)                                                          \
  template <typename T>                                                                    \
  MUSTER_INLINE Lanes<T> operator op(Lanes<T> a, const Lanes<T>& b) {                      \
    for (std::size_t i = 0; i < Lanes<T>::kParts; ++i) a.part[i] = a.part[i] op b.part[i]; \
    return a;                                                                              \
  }
MUSTER_LANES_OPERATOR(+)
MUSTER_LANES_OPERATOR(-)
MUSTER_LANES_OPERATOR(*)
MUSTER_LANES_OPERATOR(/)
#undef MUSTER_LANES_OPERATOR

template <typename T>
MUSTER_INLINE Lanes<T> Max(Lanes<T> a, const Lanes<T>& b) {
  // NaN in a stays: every comparison with it is false.
  for (std::size_t i = 0; i < Lanes<T>::kParts; ++i) {
    a.part[i] = a.part[i] < b.part[i] ? b.part[i] : a.part[i];
  }
  return a;
}

template <typename T>
MUSTER_INLINE Lanes<T> Min(Lanes<T> a, const Lanes<T>& b) {
  for (std::size_t i = 0; i < Lanes<T>::kParts; ++i) {
    a.part[i] = b.part[i] < a.part[i] ? b.part[i] : a.part[i];
  }
  return a;
}

// Halves are added to halves: 16, 8, 4, 2, 1.
template <typename T>
MUSTER_INLINE T Sum(const Lanes<T>& lanes) {
  T value[kLanes];
  StoreAll(value, lanes);
  for (std::size_t half = kLanes / 2; half > 0; half /= 2) {
    for (std::size_t i = 0; i < half; ++i) value[i] += value[i + half];
  }
  return value[0];
}

template <typename T>
MUSTER_INLINE T Largest(const Lanes<T>& lanes) {
  T value[kLanes];
  StoreAll(value, lanes);
  T largest = value[0];
  for (std::size_t i = 1; i < kLanes; ++i) largest = largest < value[i] ? value[i] : largest;
  return largest;
}

// exp(x) within 2 units in the last place for -87 <= x <= 88; clamped outside. Reduction to
// |r| <= ln(2)/2 and the polynomial of Cephes' expf (Moshier).
MUSTER_INLINE Lanes<float> Exp(Lanes<float> x) {
  using Integer = NativeVector<float>::Integer;
  constexpr float kLow = -87.0f, kHigh = 88.0f;
  constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer
  constexpr float kLog2e = 1.44269504088896341f;
  constexpr float kLn2High = 0.693359375f, kLn2Low = -2.12194440e-4f;
  x = Min(Max(x, Fill(kLow)), Fill(kHigh));
  for (std::size_t i = 0; i < Lanes<float>::kParts; ++i) {
    const auto v = x.part[i];
    const auto shifted = v * kLog2e + kRound;
    const auto n = shifted - kRound;
    const auto r = (v - n * kLn2High) - n * kLn2Low;
    auto p = r * 1.9875691500e-4f + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * (r * r) + r + 1.0f;
    // The low bits of `shifted` are n in two's complement: move them into the exponent.
    const Integer power = (__builtin_bit_cast(Integer, shifted) << 23) + (127 << 23);
    x.part[i] = p * __builtin_bit_cast(decltype(v), power);
  }
  return x;
}

MUSTER_INLINE Lanes<double> Exp(const Lanes<double>& x) {
  double value[kLanes];
  StoreAll(value, x);
  for (std::size_t i = 0; i < kLanes; ++i) value[i] = __builtin_exp(value[i]);
  return LoadAll(value);
}

}  // namespace
}  // namespace muster::models
