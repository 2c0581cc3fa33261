#include "common/random.h"

#include <bit>

#include "common/check.h"

namespace muster {

Random::Random(std::uint64_t seed) {
  for (std::uint64_t& word : state_) {
    seed += 0x9e3779b97f4a7c15U;
    std::uint64_t mixed = seed;
    mixed = (mixed ^ (mixed >> 30U)) * 0xbf58476d1ce4e5b9U;
    mixed = (mixed ^ (mixed >> 27U)) * 0x94d049bb133111ebU;
    word = mixed ^ (mixed >> 31U);
  }
}

Random::result_type Random::operator()() {
  const std::uint64_t result = std::rotl(state_[1] * 5, 7) * 9;
  const std::uint64_t shifted = state_[1] << 17U;
  state_[2] ^= state_[0];
  state_[3] ^= state_[1];
  state_[1] ^= state_[2];
  state_[0] ^= state_[3];
  state_[2] ^= shifted;
  state_[3] = std::rotl(state_[3], 45);
  return result;
}

std::uint64_t Random::Below(std::uint64_t bound) {
  MUSTER_CHECK(bound > 0, "a random number below 0 was asked for");
  // Numbers under the threshold would favour small results.
  const std::uint64_t threshold = (0 - bound) % bound;
  while (true) {
    const std::uint64_t number = (*this)();
    if (number >= threshold) return number % bound;
  }
}

std::int64_t Random::Between(std::int64_t low, std::int64_t high) {
  MUSTER_CHECK(low <= high, "the range of a random number is empty");
  const std::uint64_t span = static_cast<std::uint64_t>(high) - static_cast<std::uint64_t>(low) + 1;
  const std::uint64_t offset = span == 0 ? (*this)() : Below(span);
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(low) + offset);
}

double Random::Unit() { return static_cast<double>((*this)() >> 11U) * 0x1.0p-53; }

}  // namespace muster
