#pragma once

// What a worker may ask for: local::RequestKind of proto/local.h, which the core may not include; a
// test compares the numbers.

#include <cstdint>

namespace muster::core {

inline constexpr std::uint8_t kRequestRequeue = 0;
inline constexpr std::uint8_t kRequestStop = 1;
inline constexpr std::uint8_t kRequestDone = 2;

}  // namespace muster::core
