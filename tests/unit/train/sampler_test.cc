// Each sample exactly once a pass, whatever the world and the batch do.

#include "trainer_runtime/train/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <vector>

namespace muster::training {
namespace {

// What all ranks of a world together train on in one step, in rank order.
std::vector<std::uint64_t> Step(const Sampler& sampler, DataCursor& cursor, std::uint64_t batch,
                                std::uint64_t world) {
  std::vector<std::uint64_t> samples;
  for (std::uint64_t rank = 0; rank < world; ++rank) {
    const Slice slice = RankSlice(batch, rank, world);
    for (std::uint64_t i = 0; i < slice.count; ++i) {
      samples.push_back(sampler.SampleAt(cursor.samples_consumed + slice.first + i));
    }
  }
  cursor.samples_consumed += batch;
  return samples;
}

// `samples` are whole passes and the beginning of another.
void ExpectWholePasses(const std::vector<std::uint64_t>& samples, std::uint64_t size) {
  for (std::size_t begin = 0; begin < samples.size(); begin += size) {
    const std::size_t end = std::min<std::size_t>(begin + size, samples.size());
    std::vector<std::uint64_t> pass(samples.begin() + static_cast<long>(begin),
                                    samples.begin() + static_cast<long>(end));
    std::sort(pass.begin(), pass.end());
    EXPECT_EQ(std::adjacent_find(pass.begin(), pass.end()), pass.end()) << "a sample twice";
    if (pass.size() == size) {
      EXPECT_EQ(pass.front(), 0u);
      EXPECT_EQ(pass.back(), size - 1);
    }
  }
}

TEST(Sampler, SlicesCoverTheBatchInOrder) {
  for (std::uint64_t world = 1; world <= 40; ++world) {
    for (std::uint64_t batch : {0u, 1u, 3u, 7u, 8u, 24u, 39u, 1000u}) {
      std::uint64_t next = 0, smallest = batch, largest = 0;
      for (std::uint64_t rank = 0; rank < world; ++rank) {
        const Slice slice = RankSlice(batch, rank, world);
        EXPECT_EQ(slice.first, next);
        next += slice.count;
        smallest = std::min(smallest, slice.count);
        largest = std::max(largest, slice.count);
      }
      EXPECT_EQ(next, batch);
      EXPECT_LE(largest - std::min(smallest, largest), 1u);
    }
  }
}

TEST(Sampler, AnyWorldSizeGivesTheSameBatches) {
  const Sampler sampler = *Sampler::Create(101, 7);
  DataCursor one{7, 0};
  std::vector<std::uint64_t> expected;
  for (int step = 0; step < 40; ++step) {
    for (std::uint64_t sample : Step(sampler, one, 13, 1)) expected.push_back(sample);
  }
  ExpectWholePasses(expected, 101);
  for (std::uint64_t world = 2; world <= 16; ++world) {
    DataCursor cursor{7, 0};
    std::vector<std::uint64_t> samples;
    for (int step = 0; step < 40; ++step) {
      for (std::uint64_t sample : Step(sampler, cursor, 13, world)) samples.push_back(sample);
    }
    EXPECT_EQ(samples, expected) << world;
  }
}

TEST(Sampler, ExactlyOnceThroughChangesOfTheWorldAndTheBatch) {
  for (std::uint64_t size : {1u, 2u, 3u, 5u, 12u, 47u, 1000u}) {  // some smaller than a batch
    const Sampler sampler = *Sampler::Create(size, 11);
    DataCursor cursor{11, 0};
    std::vector<std::uint64_t> samples;
    const struct {
      std::uint64_t world, batch;
      int steps;
    } phases[] = {{4, 12, 10}, {3, 12, 7}, {4, 12, 9}, {4, 16, 5}, {8, 5, 20}, {1, 1, 30}};
    for (const auto& [world, batch, steps] : phases) {
      for (int step = 0; step < steps; ++step) {
        // What a resumed process knows is the cursor alone.
        DataCursor resumed = cursor;
        for (std::uint64_t sample : Step(sampler, resumed, batch, world)) samples.push_back(sample);
        cursor = resumed;
      }
    }
    EXPECT_EQ(cursor.samples_consumed, samples.size());
    ExpectWholePasses(samples, size);
  }
}

TEST(Sampler, PassesAndSeedsHaveOrdersOfTheirOwn) {
  const Sampler sampler = *Sampler::Create(50, 1), other = *Sampler::Create(50, 2);
  std::vector<std::uint64_t> first, second, different;
  for (std::uint64_t i = 0; i < 50; ++i) {
    first.push_back(sampler.SampleAt(i));
    second.push_back(sampler.SampleAt(50 + i));
    different.push_back(other.SampleAt(i));
  }
  EXPECT_NE(first, second);
  EXPECT_NE(first, different);
  EXPECT_FALSE(std::is_sorted(first.begin(), first.end()));
}

TEST(Sampler, NoSamplesAreRefused) {
  EXPECT_EQ(Sampler::Create(0, 1).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Sampler::Create(~std::uint64_t{0}, 1).status().code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace muster::training
