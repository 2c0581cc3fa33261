#pragma once

// Powers and a cosine from additions and multiplications alone. The C library's differ in the last
// bit from version to version; replicas on different nodes must not. Pure.

#include <cstdint>

namespace muster::training {

// base^exponent by squaring.
double PowerOf(double base, std::uint64_t exponent);

// cos(pi * x) for 0 <= x <= 1, within 1e-15.
double CosinePi(double x);

}  // namespace muster::training
