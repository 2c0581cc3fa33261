#pragma once

// A small deterministic random generator (xoshiro256**, seeded through splitmix64) for simulations,
// jitter and tests: the same seed gives the same numbers on every machine, which the standard
// distributions do not promise. Never for secrets: those come from common/entropy.h.
//
// Thread-compatible. Satisfies UniformRandomBitGenerator, so std::shuffle takes it.

#include <array>
#include <cstdint>
#include <limits>

namespace muster {

class Random {
 public:
  using result_type = std::uint64_t;

  explicit Random(std::uint64_t seed);

  static constexpr result_type min() { return 0; }
  static constexpr result_type max() { return std::numeric_limits<result_type>::max(); }
  result_type operator()();

  // Uniform in [0, bound). REQUIRES bound > 0.
  std::uint64_t Below(std::uint64_t bound);
  // Uniform in [low, high]. REQUIRES low <= high.
  std::int64_t Between(std::int64_t low, std::int64_t high);
  // Uniform in [0, 1).
  double Unit();
  bool Chance(double probability) { return Unit() < probability; }

 private:
  std::array<std::uint64_t, 4> state_{};
};

}  // namespace muster
