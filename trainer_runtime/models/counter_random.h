#pragma once

// Counter-based random numbers: value i of a stream is a pure function of (seed, i), in integers,
// so the same on every machine and in every order. Not for secrets.

#include <cstdint>

namespace muster::models {

// The finaliser of SplitMix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number
// generators", OOPSLA 2014): a bijection of 64 bits in which every input bit moves every output
// bit.
constexpr std::uint64_t Mix64(std::uint64_t value) {
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9u;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebu;
  return value ^ (value >> 31);
}

constexpr std::uint64_t Random64(std::uint64_t seed, std::uint64_t index) {
  constexpr std::uint64_t kGolden = 0x9e3779b97f4a7c15u;
  return Mix64(Mix64(seed + kGolden) + (index + 1) * kGolden);
}

// Nearly normal, mean 0, deviation 1, within +-6: the sum of twelve uniform numbers, less six
// (Irwin-Hall). It needs no logarithm or cosine, whose last bits differ between C libraries.
constexpr double RandomNormal(std::uint64_t seed, std::uint64_t index) {
  std::int64_t sum = 0;
  for (std::uint64_t part = 0; part < 3; ++part) {
    const std::uint64_t bits = Random64(seed, index * 3 + part);
    for (int shift = 0; shift < 64; shift += 16) {
      sum += 2 * static_cast<std::int64_t>((bits >> shift) & 0xffffu) + 1;
    }
  }
  return static_cast<double>(sum) / 131072.0 - 6.0;  // each term is an odd multiple of 2^-17
}

}  // namespace muster::models
