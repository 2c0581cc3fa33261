#pragma once

// A shuffled order of 0 .. size - 1 without a list: each place is computed.
//
// A Feistel network of six rounds over the next even power of two is a bijection whatever its round
// function; walking on from values outside the range until one is inside makes it one of the range
// (Black and Rogaway, "Ciphers with Arbitrary Finite Domains", 2002, section 3). The domain is at
// most four times the size, so a look-up takes under four walks on average. Pure.

#include <cstdint>

namespace muster::training {

class Permutation {
 public:
  // REQUIRES size >= 1 and at most 2^62. Different keys give unrelated orders.
  Permutation(std::uint64_t size, std::uint64_t key);

  std::uint64_t size() const { return size_; }
  // REQUIRES index < size().
  std::uint64_t At(std::uint64_t index) const;

 private:
  std::uint64_t Encrypt(std::uint64_t value) const;

  std::uint64_t size_;
  std::uint64_t key_;
  unsigned half_bits_ = 1;
  std::uint64_t half_mask_ = 1;
};

}  // namespace muster::training
