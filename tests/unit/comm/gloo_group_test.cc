#include "trainer_runtime/comm/gloo_group.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "common/random.h"
#include "tests/unit/comm/world.h"
#include "trainer_runtime/comm/summation_order.h"

namespace muster::comm {
namespace {

using namespace std::chrono_literals;
using test::World;

// Values whose sum depends on the order.
std::vector<float> Values(int rank, std::size_t count) {
  Random random(static_cast<std::uint64_t>(rank) * 1000 + count);
  std::vector<float> values(count);
  for (float& value : values) {
    value = static_cast<float>((random.Unit() - 0.5) * std::pow(10.0, random.Between(-4, 4)));
  }
  return values;
}

// The documented order, element by element.
std::vector<float> ExpectedSum(int size, std::size_t count) {
  std::vector<std::vector<float>> inputs;
  for (int rank = 0; rank < size; ++rank) inputs.push_back(Values(rank, count));
  std::vector<float> sum(count);
  for (std::size_t i = 0; i < count; ++i) {
    int first = 0;
    if (!AddsDirectly(count, size)) {
      while (ChunkBegin(count, size, first + 1) <= i) ++first;
    }
    float value = inputs[static_cast<std::size_t>(first)][i];
    for (int k = 1; k < size; ++k) value += inputs[static_cast<std::size_t>((first + k) % size)][i];
    sum[i] = value;
  }
  return sum;
}

class GlooAllReduce : public ::testing::TestWithParam<int> {};

TEST_P(GlooAllReduce, GivesTheDocumentedBitsOnEveryRank) {
  const int size = GetParam();
  World world(size);
  const std::vector<std::size_t> counts{0,
                                        1,
                                        15,
                                        16,
                                        17,
                                        1000,
                                        8192,
                                        8193,
                                        100003,
                                        262144,
                                        65536 * 3 + 5,
                                        static_cast<std::size_t>(1) << 20};
  world.WithGroups([&](int rank, ProcessGroup& group) {
    for (const std::size_t count : counts) {
      for (int repeat = 0; repeat < 2; ++repeat) {
        std::vector<float> values = Values(rank, count);
        const Status status = group.AllReduce(values).Wait();
        ASSERT_TRUE(status.ok()) << status.ToString();
        const std::vector<float> expected = ExpectedSum(size, count);
        ASSERT_TRUE(count == 0 ||
                    std::memcmp(values.data(), expected.data(), count * sizeof(float)) == 0)
            << "rank " << rank << " of " << size << ", " << count << " elements";
      }
    }
  });
}
INSTANTIATE_TEST_SUITE_P(Sizes, GlooAllReduce, ::testing::Values(1, 2, 3, 4, 5, 8));

TEST(ChunkBegin, CoversEveryElementOnceInOrder) {
  for (const int size : {1, 2, 3, 7, 64, 1000}) {
    for (const std::size_t count : {0UL, 1UL, 15UL, 16UL, 100UL, 8193UL, 1000003UL}) {
      std::size_t last = 0;
      for (int chunk = 0; chunk <= size; ++chunk) {
        const std::size_t begin = ChunkBegin(count, size, chunk);
        ASSERT_GE(begin, last);
        ASSERT_LE(begin, count);
        last = begin;
      }
      ASSERT_EQ(ChunkBegin(count, size, 0), 0U);
      ASSERT_EQ(last, count);
    }
  }
}

class GlooBroadcast : public ::testing::TestWithParam<int> {};

TEST_P(GlooBroadcast, EveryRootReachesEveryRank) {
  const int size = GetParam();
  World world(size);
  world.WithGroups([&](int rank, ProcessGroup& group) {
    for (int root = 0; root < size; ++root) {
      for (const std::size_t count : {0UL, 1UL, 32768UL, 32769UL, 262144UL * 5 + 3, 3000000UL}) {
        std::vector<std::byte> bytes(count);
        if (rank == root) {
          Random random(count + static_cast<std::uint64_t>(root));
          for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.Below(256));
        }
        const Status status = group.Broadcast(bytes, root).Wait();
        ASSERT_TRUE(status.ok()) << status.ToString();
        Random random(count + static_cast<std::uint64_t>(root));
        for (const std::byte byte : bytes) {
          ASSERT_EQ(byte, static_cast<std::byte>(random.Below(256)));
        }
      }
    }
  });
}
INSTANTIATE_TEST_SUITE_P(Sizes, GlooBroadcast, ::testing::Values(1, 2, 3, 5));

TEST(GlooGroup, AllGatherPutsEachRankInItsPlace) {
  World world(4);
  world.WithGroups([&](int rank, ProcessGroup& group) {
    for (const std::size_t each : {1UL, 8UL, 100000UL}) {
      const std::vector<std::byte> own(each, static_cast<std::byte>(rank + 1));
      std::vector<std::byte> all(each * 4);
      ASSERT_TRUE(group.AllGather(own, all).Wait().ok());
      for (std::size_t i = 0; i < all.size(); ++i) {
        ASSERT_EQ(all[i], static_cast<std::byte>(i / each + 1));
      }
    }
  });
}

TEST(GlooGroup, ManyOperationsInFlightKeepTheirOrder) {
  World world(3);
  world.WithGroups([&](int rank, ProcessGroup& group) {
    constexpr std::size_t kBuckets = 40;
    std::vector<std::vector<float>> buckets;
    std::vector<Work> works;
    for (std::size_t i = 0; i < kBuckets; ++i) {
      buckets.emplace_back(i % 2 == 0 ? 100 : 30000, static_cast<float>(i + 1));
    }
    for (auto& bucket : buckets) works.push_back(group.AllReduce(bucket));
    const Work barrier = group.Barrier();
    ASSERT_TRUE(barrier.Wait().ok());
    for (std::size_t i = 0; i < kBuckets; ++i) {
      EXPECT_TRUE(works[i].done());
      EXPECT_EQ(buckets[i].front(), static_cast<float>(3 * (i + 1))) << rank;
      EXPECT_EQ(buckets[i].back(), static_cast<float>(3 * (i + 1)));
    }
  });
}

TEST(GlooGroup, SeveralGroupsOfOneRoundLiveSideBySide) {
  World world(2);
  world.OnEach([&](int rank) {
    GlooOptions first, second;
    second.name = "second";
    auto a = CreateGlooGroup(world.session(rank), world.Round(rank), first);
    ASSERT_TRUE(a.ok()) << a.status().ToString();
    auto b = CreateGlooGroup(world.session(rank), world.Round(rank), second);
    ASSERT_TRUE(b.ok()) << b.status().ToString();
    std::vector<float> x(10, 1), y(10, 2);
    const Work on_b = (*b)->AllReduce(y);
    EXPECT_TRUE((*a)->AllReduce(x).Wait().ok());
    EXPECT_TRUE(on_b.Wait().ok());
    EXPECT_EQ(x[9], 2);
    EXPECT_EQ(y[9], 4);
    (*a)->Close();
    (*b)->Close();
  });
}

}  // namespace
}  // namespace muster::comm
