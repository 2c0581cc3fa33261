#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>

#include "checkpoint/names.h"
#include "tests/unit/checkpoint/fixtures.h"

namespace muster::checkpoint {
namespace {

PruneOptions Keep(std::size_t keep) { return {.keep = keep, .marked = {}, .known_good = {}}; }

void WriteAll(const TemporaryFolder& folder, std::initializer_list<std::uint64_t> steps,
              const std::string& run = "run1") {
  for (std::uint64_t step : steps) {
    ASSERT_TRUE(WriteTestEntry(TestFiles(), folder.path(), run, step).ok());
  }
}

TEST(Prune, KeepsTheNewest) {
  TemporaryFolder folder;
  WriteAll(folder, {9'800, 9'900, 10'000, 10'100});
  const auto report = Prune(TestFiles(), folder.path(), "run1", Keep(2));
  ASSERT_TRUE(report.ok());
  EXPECT_EQ(Steps(folder.path()), (std::vector<std::uint64_t>{10'000, 10'100}));
  ASSERT_EQ(report->removed.size(), 2u);
  EXPECT_EQ(report->removed[0].step, 9'800u);
}

TEST(Prune, KeepZeroIsRefused) {
  TemporaryFolder folder;
  WriteAll(folder, {1});
  EXPECT_EQ(Prune(TestFiles(), folder.path(), "run1", Keep(0)).status().code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(Steps(folder.path()).size(), 1u);
}

TEST(Prune, DamagedOnesDoNotCount) {
  TemporaryFolder folder;
  WriteAll(folder, {1, 2, 3, 4});
  FlipByte(folder.path() + "/" + EntryName(4) + "/rank-0", 1);
  FlipByte(folder.path() + "/" + EntryName(3) + "/rank-0", 1);
  ASSERT_TRUE(Prune(TestFiles(), folder.path(), "run1", Keep(1)).ok());
  EXPECT_EQ(Steps(folder.path()), (std::vector<std::uint64_t>{2, 3, 4}));
}

TEST(Prune, OthersEntriesAndUnreadableOnesStay) {
  TemporaryFolder folder;
  WriteAll(folder, {1, 3, 5});
  WriteAll(folder, {2, 9}, "other");
  WriteAll(folder, {4});
  WriteText(folder.path() + "/" + EntryName(4) + "/manifest.json", "{}");
  const auto report = Prune(TestFiles(), folder.path(), "run1", Keep(1));
  ASSERT_TRUE(report.ok());
  EXPECT_EQ(Steps(folder.path()), (std::vector<std::uint64_t>{2, 4, 5, 9}));
  EXPECT_EQ(report->left.size(), 3u);
}

TEST(Prune, MarkedOnesStay) {
  TemporaryFolder folder;
  WriteAll(folder, {1, 2, 3, 4});
  ASSERT_TRUE(
      Prune(TestFiles(), folder.path(), "run1", {.keep = 1, .marked = {2}, .known_good = {}}).ok());
  EXPECT_EQ(Steps(folder.path()), (std::vector<std::uint64_t>{2, 4}));
}

TEST(Prune, KnownGoodOnesAreMeasuredOnly) {
  TemporaryFolder folder;
  WriteAll(folder, {1, 2});
  std::filesystem::resize_file(folder.path() + "/" + EntryName(2) + "/rank-0", 3);
  ASSERT_TRUE(
      Prune(TestFiles(), folder.path(), "run1", {.keep = 1, .marked = {}, .known_good = {2}}).ok());
  EXPECT_EQ(Steps(folder.path()), (std::vector<std::uint64_t>{1, 2}));
}

TEST(Prune, LeftoversOfWorkInProgressAndOfOthersStay) {
  TemporaryFolder folder;
  const auto mine_old = CreateTemporary(TestFiles(), folder.path(), "run1", 5);
  const auto mine_new = CreateTemporary(TestFiles(), folder.path(), "run1", 9);
  const auto other = CreateTemporary(TestFiles(), folder.path(), "other", 5);
  WriteText(*mine_old + "/rank-0", "half a sha");
  const auto removed = RemoveLeftovers(TestFiles(), folder.path(), "run1", 9);
  ASSERT_TRUE(removed.ok());
  EXPECT_EQ(removed->size(), 1u);
  EXPECT_FALSE(std::filesystem::exists(*mine_old));
  EXPECT_TRUE(std::filesystem::exists(*mine_new));
  EXPECT_TRUE(std::filesystem::exists(*other));
}

// Any sequence of saves, damage and pruning: the newest good entry of the run is never lost.
TEST(Prune, TheNewestGoodEntryOutlivesAnySequence) {
  std::mt19937 random(3);
  for (int game = 0; game < 12; ++game) {
    TemporaryFolder folder;
    std::map<std::uint64_t, bool> good;  // of run1
    std::uint64_t step = 9'000;
    for (int move = 0; move < 25; ++move) {
      step += 1 + random() % 700;
      switch (random() % 5) {
        case 0:
        case 1:
          ASSERT_TRUE(WriteTestEntry(TestFiles(), folder.path(), "run1", step).ok());
          good[step] = true;
          break;
        case 2:
          ASSERT_TRUE(WriteTestEntry(TestFiles(), folder.path(), "other", step).ok());
          break;
        case 3: {
          if (good.empty()) break;
          auto victim = good.begin();
          std::advance(victim, static_cast<long>(random() % good.size()));
          if (!victim->second) break;
          FlipByte(folder.path() + "/" + EntryName(victim->first) + "/rank-0", random() % 100);
          victim->second = false;
          break;
        }
        case 4: {
          const auto report = Prune(TestFiles(), folder.path(), "run1", Keep(1 + random() % 3));
          ASSERT_TRUE(report.ok());
          for (const EntryReference& entry : report->removed) good.erase(entry.step);
          break;
        }
      }
      std::uint64_t newest = 0;
      for (const auto& [s, ok] : good) newest = ok ? s : newest;
      const auto found = NewestVerified(folder.path(), "run1");
      ASSERT_EQ(found.ok(), newest != 0) << found.status().ToString();
      if (found.ok()) {
        ASSERT_EQ(found->entry.step, newest);
      }
    }
  }
}

}  // namespace
}  // namespace muster::checkpoint
