#include "trainer_runtime/train/permutation.h"

#include "common/check.h"
#include "trainer_runtime/models/counter_random.h"

namespace muster::training {

namespace {

constexpr std::uint64_t kSizeMax = std::uint64_t{1} << 62;
// Four make the order look random for large sizes; small ones, whose halves have a bit or two, gain
// from a few more.
constexpr std::uint64_t kRounds = 6;

}  // namespace

Permutation::Permutation(std::uint64_t size, std::uint64_t key) : size_(size), key_(key) {
  MUSTER_CHECK(size >= 1 && size <= kSizeMax, "a permutation has 1 to 2^62 places");
  while ((std::uint64_t{1} << (2 * half_bits_)) < size) ++half_bits_;
  half_mask_ = (std::uint64_t{1} << half_bits_) - 1;
}

std::uint64_t Permutation::Encrypt(std::uint64_t value) const {
  std::uint64_t left = value >> half_bits_;
  std::uint64_t right = value & half_mask_;
  for (std::uint64_t round = 0; round < kRounds; ++round) {
    const std::uint64_t mixed = models::Random64(key_ + round, right);
    const std::uint64_t next = (left ^ mixed) & half_mask_;
    left = right;
    right = next;
  }
  return left << half_bits_ | right;
}

std::uint64_t Permutation::At(std::uint64_t index) const {
  MUSTER_CHECK(index < size_, "a place outside the permutation");
  // Ends: the walk follows a cycle of a bijection, and that cycle holds `index`, which is inside.
  do {
    index = Encrypt(index);
  } while (index >= size_);
  return index;
}

}  // namespace muster::training
