#pragma once

// Random bytes from the system, for secrets, incarnations and seeds. Thread-safe.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "common/status.h"

namespace muster {

// Fills all of `out` from getrandom(2), or says why not: never fewer bytes, never weaker ones.
Status FillRandom(std::span<std::uint8_t> out);
Result<std::string> RandomBytes(std::size_t count);
// A seed for common/random.h.
Result<std::uint64_t> RandomSeed();

}  // namespace muster
