#pragma once

// The order in which AllReduce adds: a function of sizes alone, shared by every backend that
// promises the same bits (the Gloo group; the NCCL stand-in of the tests; not NCCL itself).
//
// Short vectors are exchanged directly and added in rank order. Long ones go around a ring: the
// vector is cut into one chunk a rank, and chunk c is added in the order c, c+1, ..., c-1.
// Pure; anybody may use it.

#include <algorithm>
#include <cstddef>

namespace muster::comm {

// Below this a direct exchange is one hop of little data; above it the ring sends less.
inline constexpr std::size_t kDirectBytesMax = 32 << 10;
// A direct exchange is size * (size - 1) messages.
inline constexpr int kDirectRanksMax = 32;
// Chunks begin on cache lines.
inline constexpr std::size_t kChunkGrain = 16;

inline bool AddsDirectly(std::size_t count, int size) {
  return count * sizeof(float) <= kDirectBytesMax && size <= kDirectRanksMax;
}

// Chunk c of `size` chunks is [ChunkBegin(c), ChunkBegin(c + 1)).
inline std::size_t ChunkBegin(std::size_t count, int size, int chunk) {
  const auto ranks = static_cast<std::size_t>(size);
  const std::size_t each = (count / ranks + kChunkGrain - 1) / kChunkGrain * kChunkGrain;
  return chunk == size ? count : std::min(count, each * static_cast<std::size_t>(chunk));
}

}  // namespace muster::comm
