#pragma once

// The fence of a round as workers see it: attempt first, then round. Pure values.

#include <compare>
#include <cstdint>
#include <string>

#include "proto/local.h"

namespace muster::session {

using local::RoundInfo;

struct RoundId {
  std::uint32_t attempt = 0;
  std::uint32_t round = 0;  // 0: no round yet
  auto operator<=>(const RoundId&) const = default;
};

inline RoundId IdOf(const RoundInfo& info) { return {info.attempt, info.round}; }
// "attempt 0 round 3"
std::string ToString(RoundId id);

}  // namespace muster::session
