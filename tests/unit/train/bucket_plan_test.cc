#include "trainer_runtime/train/bucket_plan.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "trainer_runtime/models/gpt.h"

namespace muster::training {
namespace {

// From the end to the start without gap or overlap, cut at tensors.
void ExpectCovers(const BucketPlan& plan, const models::TensorTable& table) {
  std::size_t end = table.count();
  for (const Bucket& bucket : plan.buckets) {
    EXPECT_EQ(bucket.first + bucket.count, end);
    EXPECT_GT(bucket.count, 0u);
    end = bucket.first;
    bool at_tensor = false;
    for (const models::Tensor& tensor : table.tensors()) at_tensor |= tensor.offset == end;
    EXPECT_TRUE(at_tensor) << "cut inside a tensor";
  }
  EXPECT_EQ(end, 0u);
}

TEST(BucketPlan, Table) {
  models::TensorTable table;
  for (std::size_t size : {100u, 10u, 10u, 10u, 10u, 10u}) table.Add("t", {size});
  const struct {
    std::size_t first_bytes, bytes;
    std::vector<std::size_t> counts;
  } cases[] = {
      {0, 0, {10, 10, 10, 10, 10, 100}}, {40, 80, {10, 20, 20, 100}}, {41, 80, {20, 20, 110}},
      {1 << 20, 1 << 20, {150}},         {4, 1 << 20, {10, 140}},
  };
  for (const auto& [first_bytes, bytes, counts] : cases) {
    const BucketPlan plan = MakeBuckets(table.tensors(), first_bytes, bytes);
    std::vector<std::size_t> found;
    for (const Bucket& bucket : plan.buckets) found.push_back(bucket.count);
    EXPECT_EQ(found, counts);
    ExpectCovers(plan, table);
  }
  EXPECT_TRUE(MakeBuckets({}, 1, 1).buckets.empty());
}

TEST(BucketPlan, RandomTables) {
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    models::TensorTable table;
    for (std::size_t i = 0; i < 1 + random() % 40; ++i) table.Add("t", {1 + random() % 1000});
    const std::size_t first = random() % 3000, bytes = random() % 9000;
    const BucketPlan plan = MakeBuckets(table.tensors(), first, bytes);
    ExpectCovers(plan, table);
    for (std::size_t i = 0; i + 1 < plan.buckets.size(); ++i) {
      EXPECT_GE(plan.buckets[i].count * sizeof(float), i == 0 ? first : bytes) << "closed early";
    }
  }
}

TEST(BucketProgress, FollowsABackwardPass) {
  auto model = models::Gpt::Create({2, 2, 16, 8, 256});
  ASSERT_TRUE(model.ok());
  (*model)->Initialize(1);
  const std::vector<std::int32_t> tokens(9, 5);
  const BucketPlan plan = MakeBuckets((*model)->tensors(), 1024, 8192);
  ASSERT_GT(plan.buckets.size(), 3u);
  BucketProgress progress(plan);
  for (int pass = 0; pass < 2; ++pass) {
    std::vector<std::size_t> ready;
    std::size_t reports = 0, before_last_report = 0;
    ASSERT_TRUE((*model)->Forward({tokens, 1, 8}).ok());
    ASSERT_TRUE((*model)
                    ->Backward({},
                               [&](std::size_t first, std::size_t count) {
                                 ++reports;
                                 before_last_report = ready.size();
                                 progress.Report(first, count, [&](std::size_t bucket) {
                                   EXPECT_LE(first, plan.buckets[bucket].first);
                                   ready.push_back(bucket);
                                 });
                               })
                    .ok());
    EXPECT_TRUE(progress.done());
    ASSERT_EQ(ready.size(), plan.buckets.size());
    for (std::size_t i = 0; i < ready.size(); ++i) EXPECT_EQ(ready[i], i);
    EXPECT_GT(before_last_report, 1u) << "no bucket was ready before the end";
    progress.Reset();
    EXPECT_FALSE(progress.done());
  }
}

}  // namespace
}  // namespace muster::training
