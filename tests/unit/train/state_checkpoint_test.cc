#include "trainer_runtime/train/state_checkpoint.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "checkpoint/folder.h"
#include "tests/unit/train/fixtures.h"

namespace muster::training {
namespace {

TEST(StateCheckpoint, SaveAndLoad) {
  TemporaryFolder folder;
  const models::TensorTable table = MakeTable();
  OwnedState saved(0, table.count(), table.count(), 1), loaded(0, table.count(), table.count(), 2);
  const TrainingProgress progress = MakeProgress(table);
  const auto path = SaveState(checkpoint::SystemFiles(), folder.path(), "run1", 4, progress,
                              table.tensors(), saved.arrays);
  ASSERT_TRUE(path.ok()) << path.status().ToString();
  const auto found = checkpoint::NewestVerified(folder.path(), "run1");
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found->entry.step, progress.step);
  EXPECT_EQ(found->manifest.shards[0].bytes, 3 * table.count() * sizeof(float));
  const auto got = LoadState(*path, found->manifest, table.tensors(), loaded.arrays);
  ASSERT_TRUE(got.ok()) << got.status().ToString();
  EXPECT_EQ(*got, progress);
  EXPECT_EQ(loaded.values, saved.values);
}

// Partitions of one size are read into partitions of another: 4 -> 3 -> 4 and all others.
TEST(StateCheckpoint, AnyPartitionReadsAnyOther) {
  const models::TensorTable table = MakeTable();
  const std::size_t count = table.count();
  const OwnedState whole(0, count, count, 1);
  for (std::size_t wrote = 1; wrote <= 5; ++wrote) {
    TemporaryFolder folder;
    checkpoint::Manifest manifest;
    manifest.run = "run1";
    manifest.step = 42;
    manifest.world_size = wrote;
    manifest.scalars = ProgressToScalars(MakeProgress(table));
    std::vector<std::unique_ptr<OwnedState>> parts;
    std::vector<checkpoint::ShardSource> shards;
    for (std::size_t rank = 0; rank < wrote; ++rank) {
      const std::size_t first = count * rank / wrote, last = count * (rank + 1) / wrote;
      parts.push_back(std::make_unique<OwnedState>(first, last - first, count, 1));
      shards.push_back(
          MakeStateShard("rank-" + std::to_string(rank), table.tensors(), parts.back()->arrays));
    }
    const auto path =
        checkpoint::WriteEntry(checkpoint::SystemFiles(), folder.path(), manifest, shards);
    ASSERT_TRUE(path.ok()) << path.status().ToString();
    manifest = *checkpoint::VerifyEntry(*path);
    for (std::size_t reads = 1; reads <= 5; ++reads) {
      for (std::size_t rank = 0; rank < reads; ++rank) {
        const std::size_t first = count * rank / reads, last = count * (rank + 1) / reads;
        OwnedState mine(first, last - first, count, 9);
        const OwnedState expected(first, last - first, count, 1);
        ASSERT_TRUE(LoadState(*path, manifest, table.tensors(), mine.arrays).ok());
        EXPECT_EQ(mine.values, expected.values) << wrote << " -> " << reads << " rank " << rank;
      }
    }
  }
}

TEST(StateCheckpoint, AnotherModelsCheckpointIsRefused) {
  TemporaryFolder folder;
  const models::TensorTable table = MakeTable();
  OwnedState state(0, table.count(), table.count(), 1);
  const auto path = SaveState(checkpoint::SystemFiles(), folder.path(), "run1", 1,
                              MakeProgress(table), table.tensors(), state.arrays);
  ASSERT_TRUE(path.ok());
  models::TensorTable other;
  other.Add("embedding", {table.count()});
  EXPECT_EQ(LoadState(*path, *checkpoint::VerifyEntry(*path), other.tensors(), state.arrays)
                .status()
                .code(),
            StatusCode::kFailedPrecondition);
}

TEST(StateCheckpoint, EveryScalarIsNeeded) {
  const TrainingProgress progress = MakeProgress(MakeTable());
  const auto scalars = ProgressToScalars(progress);
  EXPECT_EQ(*ProgressFromScalars(scalars), progress);
  for (const auto& [name, value] : scalars) {
    auto without = scalars;
    without.erase(name);
    EXPECT_EQ(ProgressFromScalars(without).status().code(), StatusCode::kDataLoss) << name;
    auto other = scalars;
    other[name] = std::string("x");
    const Status status = ProgressFromScalars(other).status();
    EXPECT_EQ(status.code(), StatusCode::kDataLoss) << name;
    EXPECT_NE(status.message().find(name), std::string::npos) << status.message();
  }
  auto senseless = scalars;
  senseless["adamw.beta1"] = 1.5;
  EXPECT_EQ(ProgressFromScalars(senseless).status().code(), StatusCode::kDataLoss);
}

}  // namespace
}  // namespace muster::training
