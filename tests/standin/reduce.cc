#include "tests/standin/reduce.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace muster::standin {
namespace {

// 16-bit floats as bits, with the conversions that arithmetic in float needs.
struct Bfloat16 {
  std::uint16_t bits = 0;
  float Get() const { return std::bit_cast<float>(std::uint32_t{bits} << 16); }
  static Bfloat16 From(float value) {
    const auto wide = std::bit_cast<std::uint32_t>(value);
    if (std::isnan(value)) return {static_cast<std::uint16_t>((wide >> 16) | 0x40)};
    return {static_cast<std::uint16_t>((wide + 0x7fff + ((wide >> 16) & 1)) >> 16)};
  }
};

struct Half {
  std::uint16_t bits = 0;
  float Get() const {
    const int exponent = (bits >> 10) & 31, fraction = bits & 1023;
    const float sign = (bits & 0x8000) != 0 ? -1.0F : 1.0F;
    if (exponent == 31) return fraction != 0 ? NAN : sign * INFINITY;
    if (exponent == 0) return sign * std::ldexp(static_cast<float>(fraction), -24);
    return sign * std::ldexp(static_cast<float>(fraction + 1024), exponent - 25);
  }
  static Half From(float value) {
    const std::uint16_t sign = std::signbit(value) ? 0x8000 : 0;
    const float size = std::fabs(value);
    const auto with_sign = [&](long bits) { return Half{static_cast<std::uint16_t>(sign | bits)}; };
    if (std::isnan(value)) return with_sign(0x7e00);
    if (size >= 65520.0F) return with_sign(0x7c00);  // rounds to infinity
    if (size < 6.103515625e-05F) return with_sign(std::lrint(std::ldexp(size, 24)));
    int exponent = 0;
    const float fraction = std::frexp(size, &exponent);  // in [0.5, 1)
    // A fraction that rounds up to 2048 carries into the exponent, as it should.
    return with_sign(((exponent + 13L) << 10) + std::lrint(std::ldexp(fraction, 11)));
  }
};

template <typename T>
constexpr bool kIsWrapped = std::is_same_v<T, Half> || std::is_same_v<T, Bfloat16>;

template <typename T, typename Operation>
void Loop(T* target, const T* left, const T* right, std::size_t count, Operation operation) {
  for (std::size_t i = 0; i < count; ++i) {
    if constexpr (kIsWrapped<T>) {
      target[i] = T::From(operation(left[i].Get(), right[i].Get()));
    } else {
      target[i] = static_cast<T>(operation(left[i], right[i]));
    }
  }
}

// Integers wrap around, as on the device.
template <typename V>
V Plus(V left, V right) {
  if constexpr (std::is_integral_v<V>) {
    using U = std::make_unsigned_t<V>;
    return static_cast<V>(static_cast<U>(static_cast<U>(left) + static_cast<U>(right)));
  } else {
    return left + right;
  }
}
template <typename V>
V Times(V left, V right) {
  if constexpr (std::is_integral_v<V>) {
    return static_cast<V>(static_cast<std::uint64_t>(left) * static_cast<std::uint64_t>(right));
  } else {
    return left * right;
  }
}

template <typename T>
void CombineAs(void* target, const void* left, const void* right, std::size_t count,
               Reduction reduction) {
  auto* const t = static_cast<T*>(target);
  const auto* const l = static_cast<const T*>(left);
  const auto* const r = static_cast<const T*>(right);
  switch (reduction) {
    case Reduction::kSum:
    case Reduction::kAverage:
      return Loop(t, l, r, count, [](auto a, auto b) { return Plus(a, b); });
    case Reduction::kProduct:
      return Loop(t, l, r, count, [](auto a, auto b) { return Times(a, b); });
    case Reduction::kMax:
      return Loop(t, l, r, count, [](auto a, auto b) { return std::max(a, b); });
    case Reduction::kMin:
      return Loop(t, l, r, count, [](auto a, auto b) { return std::min(a, b); });
  }
}

template <typename T>
void DivideAs(void* target, std::size_t count, int by) {
  auto* const t = static_cast<T*>(target);
  for (std::size_t i = 0; i < count; ++i) {
    if constexpr (kIsWrapped<T>) {
      t[i] = T::From(t[i].Get() / static_cast<float>(by));
    } else if constexpr (std::is_unsigned_v<T>) {
      t[i] = static_cast<T>(t[i] / static_cast<unsigned>(by));
    } else {
      t[i] = static_cast<T>(t[i] / static_cast<T>(by));
    }
  }
}

// Calls body with a value of the type.
template <typename Body>
void WithType(DataType type, Body body) {
  switch (type) {
    case DataType::kInt8:
      return body(std::int8_t{});
    case DataType::kUint8:
      return body(std::uint8_t{});
    case DataType::kInt32:
      return body(std::int32_t{});
    case DataType::kUint32:
      return body(std::uint32_t{});
    case DataType::kInt64:
      return body(std::int64_t{});
    case DataType::kUint64:
      return body(std::uint64_t{});
    case DataType::kFloat16:
      return body(Half{});
    case DataType::kFloat32:
      return body(float{});
    case DataType::kFloat64:
      return body(double{});
    case DataType::kBfloat16:
      return body(Bfloat16{});
    case DataType::kFloat8e4m3:
    case DataType::kFloat8e5m2:
      return;
  }
}

}  // namespace

std::size_t SizeOf(DataType type) {
  if (type == DataType::kFloat8e4m3 || type == DataType::kFloat8e5m2) return 1;
  std::size_t size = 0;
  WithType(type, [&](auto value) { size = sizeof(value); });
  return size;
}

bool IsReducible(DataType type, Reduction reduction) {
  bool known = false;
  WithType(type, [&](auto) { known = true; });
  return known && reduction <= Reduction::kAverage;
}

void Combine(void* target, const void* left, const void* right, std::size_t count, DataType type,
             Reduction reduction) {
  WithType(type,
           [&](auto value) { CombineAs<decltype(value)>(target, left, right, count, reduction); });
}

void Divide(void* target, std::size_t count, DataType type, int by) {
  WithType(type, [&](auto value) { DivideAs<decltype(value)>(target, count, by); });
}

}  // namespace muster::standin
