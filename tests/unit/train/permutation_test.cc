#include "trainer_runtime/train/permutation.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <set>
#include <vector>

namespace muster::training {
namespace {

TEST(Permutation, IsABijectionOfEverySize) {
  std::vector<std::uint64_t> sizes;
  for (std::uint64_t size = 1; size <= 300; ++size) sizes.push_back(size);
  for (std::uint64_t size : {1023u, 1024u, 1025u, 4095u, 4097u, 10'007u, 65'537u}) {
    sizes.push_back(size);
  }
  for (std::uint64_t size : sizes) {
    const Permutation permutation(size, size * 31);
    std::vector<bool> seen(size);
    for (std::uint64_t i = 0; i < size; ++i) {
      const std::uint64_t value = permutation.At(i);
      ASSERT_LT(value, size);
      ASSERT_FALSE(seen[value]) << value << " twice in " << size;
      seen[value] = true;
    }
  }
}

TEST(Permutation, HugeSizesStayInside) {
  for (std::uint64_t size : {(1ull << 40) + 1, (1ull << 62) - 1, 1ull << 62}) {
    const Permutation permutation(size, 5);
    std::set<std::uint64_t> seen;
    for (std::uint64_t i = 0; i < 1000; ++i) {
      const std::uint64_t value = permutation.At(size - 1 - i);
      EXPECT_LT(value, size);
      EXPECT_TRUE(seen.insert(value).second);
    }
  }
}

// Every place gets every value equally often over many keys: chi-square of a 13 x 13 table. With
// 144 degrees of freedom it exceeds 220 once in ten thousand.
TEST(Permutation, OrdersOfDifferentKeysLookRandom) {
  constexpr std::uint64_t kSize = 13, kKeys = 13'000;
  std::vector<std::vector<double>> table(kSize, std::vector<double>(kSize));
  std::set<std::vector<std::uint64_t>> orders;
  for (std::uint64_t key = 0; key < kKeys; ++key) {
    const Permutation permutation(kSize, key);
    std::vector<std::uint64_t> order;
    for (std::uint64_t i = 0; i < kSize; ++i) {
      order.push_back(permutation.At(i));
      table[i][order.back()] += 1;
    }
    orders.insert(order);
  }
  double chi_square = 0;
  constexpr double kExpected = static_cast<double>(kKeys) / kSize;
  for (const auto& row : table) {
    for (double seen : row) chi_square += (seen - kExpected) * (seen - kExpected) / kExpected;
  }
  EXPECT_LT(chi_square, 220);
  EXPECT_GT(orders.size(), kKeys * 99 / 100) << "keys share orders";
}

// Neighbours must not stay neighbours, or a batch would be a stretch of text.
TEST(Permutation, NeighboursAreParted) {
  const Permutation permutation(100'000, 9);
  int close = 0;
  for (std::uint64_t i = 1; i < 100'000; ++i) {
    const std::uint64_t a = permutation.At(i - 1), b = permutation.At(i);
    close += (a > b ? a - b : b - a) <= 10 ? 1 : 0;
  }
  EXPECT_LT(close, 60) << "20 are to be expected by chance";
}

}  // namespace
}  // namespace muster::training
