// Every operation of a write and of a removal fails, or is the last one before the power goes: the
// newest complete entry is found, and no good one is lost.

#include <gtest/gtest.h>

#include <string>

#include "checkpoint/names.h"
#include "tests/unit/checkpoint/faulty_disk.h"
#include "tests/unit/checkpoint/fixtures.h"

namespace muster::checkpoint {
namespace {

constexpr std::string_view kRun = "run1";
// Far more operations than any of these take: the loop below ends before.
constexpr std::size_t kOperationsMax = 1000;

std::vector<std::string> Hidden(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& item : std::filesystem::directory_iterator(folder)) {
    const std::string name = item.path().filename().string();
    if (name[0] == '.') names.push_back(name);
  }
  return names;
}

struct World {
  Fault fault;
  bool names_too;
};

// Runs `body` with a fault at operation 0, 1, 2, ... until it comes too late to be met; each time
// in a fresh folder that holds the good entries 10 and 20. Returns how many faults there were.
template <typename Body>
std::size_t AtEveryOperation(const World& world, Body body) {
  for (std::size_t at = 0; at < kOperationsMax; ++at) {
    SCOPED_TRACE("fault at operation " + std::to_string(at));
    TemporaryFolder folder;
    EXPECT_TRUE(WriteTestEntry(TestFiles(), folder.path(), std::string(kRun), 10).ok());
    EXPECT_TRUE(WriteTestEntry(TestFiles(), folder.path(), std::string(kRun), 20).ok());
    FaultyDisk disk(world.fault, at);
    body(folder.path(), disk);
    if (::testing::Test::HasFailure() || !disk.reached()) return at;
  }
  ADD_FAILURE() << "the operations never end";
  return kOperationsMax;
}

void ExpectGood(const std::string& folder, std::uint64_t step) {
  const auto manifest = VerifyEntry(folder + "/" + EntryName(step));
  EXPECT_TRUE(manifest.ok()) << manifest.status().ToString();
}

constexpr World kWorlds[] = {{Fault::kError, false},
                             {Fault::kShortWrite, false},
                             {Fault::kPowerCut, false},
                             {Fault::kPowerCut, true}};

TEST(Fault, AWriteIsWholeOrNotThere) {
  for (const World& world : kWorlds) {
    SCOPED_TRACE("world " + std::to_string(static_cast<int>(world.fault)) +
                 (world.names_too ? " with names lost" : ""));
    const std::size_t faults =
        AtEveryOperation(world, [&](const std::string& folder, FaultyDisk& disk) {
          const auto written = WriteTestEntry(disk, folder, std::string(kRun), 30);
          if (world.fault == Fault::kPowerCut) disk.LosePower(world.names_too);
          EXPECT_TRUE(written.ok() || world.fault != Fault::kShortWrite) << "a short write is fine";
          EXPECT_TRUE(written.ok() || disk.reached()) << written.status().ToString();

          const auto found = NewestVerified(folder, kRun);
          ASSERT_TRUE(found.ok()) << found.status().ToString();
          // An answer of "written" outlives everything; an error leaves the entry before or the new
          // one.
          EXPECT_TRUE(found->entry.step == 30 || (found->entry.step == 20 && !written.ok()));
          // Nothing under an entry's name is ever half there.
          EXPECT_TRUE(found->skipped.empty());
          ExpectGood(folder, 10);
          ExpectGood(folder, 20);

          // After the restart: the same step can be saved, rubbish goes, pruning keeps the newest.
          const auto again = WriteTestEntry(TestFiles(), folder, std::string(kRun), 30);
          EXPECT_EQ(again.ok(), found->entry.step == 20) << again.status().ToString();
          ASSERT_TRUE(RemoveLeftovers(TestFiles(), folder, kRun, 31).ok());
          EXPECT_TRUE(Hidden(folder).empty());
          ASSERT_TRUE(
              Prune(TestFiles(), folder, kRun, {.keep = 1, .marked = {}, .known_good = {}}).ok());
          ExpectGood(folder, 30);
          EXPECT_EQ(Steps(folder), (std::vector<std::uint64_t>{30}));
        });
    EXPECT_GT(faults, 15u) << "the write took fewer operations than it has duties";
  }
}

TEST(Fault, AnErrorLeavesNothingBehind) {
  AtEveryOperation({Fault::kError, false}, [&](const std::string& folder, FaultyDisk& disk) {
    const auto written = WriteTestEntry(disk, folder, std::string(kRun), 30);
    if (written.ok()) return;
    EXPECT_EQ(written.status().code(), StatusCode::kResourceExhausted);
    EXPECT_NE(written.status().message().find("step 30 of run run1"), std::string::npos);
    EXPECT_NE(written.status().message().find(folder), std::string::npos) << "which file?";
    EXPECT_TRUE(Hidden(folder).empty());
  });
}

TEST(Fault, ADamagedEntryOfTheSameStepIsReplacedOrStillDamaged) {
  for (const World& world : kWorlds) {
    AtEveryOperation(world, [&](const std::string& folder, FaultyDisk& disk) {
      ASSERT_TRUE(WriteTestEntry(TestFiles(), folder, std::string(kRun), 30).ok());
      FlipByte(folder + "/" + EntryName(30) + "/rank-0", 5);
      const auto written = WriteTestEntry(disk, folder, std::string(kRun), 30);
      if (world.fault == Fault::kPowerCut) disk.LosePower(world.names_too);
      const auto found = NewestVerified(folder, kRun);
      ASSERT_TRUE(found.ok());
      EXPECT_TRUE(found->entry.step == 30 || (found->entry.step == 20 && !written.ok()));
      ExpectGood(folder, 10);
      ExpectGood(folder, 20);
    });
  }
}

TEST(Fault, PruningNeverLosesTheNewest) {
  for (const World& world : kWorlds) {
    for (std::size_t keep : {std::size_t{1}, std::size_t{2}}) {
      const std::size_t faults =
          AtEveryOperation(world, [&](const std::string& folder, FaultyDisk& disk) {
            ASSERT_TRUE(WriteTestEntry(TestFiles(), folder, std::string(kRun), 30).ok());
            ASSERT_TRUE(WriteTestEntry(TestFiles(), folder, std::string(kRun), 40).ok());
            FlipByte(folder + "/" + EntryName(40) + "/rank-1", 3);
            (void)Prune(disk, folder, kRun, {.keep = keep, .marked = {}, .known_good = {}});
            if (world.fault == Fault::kPowerCut) disk.LosePower(world.names_too);
            const auto found = NewestVerified(folder, kRun);
            ASSERT_TRUE(found.ok());
            EXPECT_EQ(found->entry.step, 30u);
            if (keep == 2) {
              ExpectGood(folder, 20);
            }
            // No half-removed entry has an entry's name: 40 is the only damaged one.
            for (const EntryReference& entry : Entries(folder)) {
              EXPECT_EQ(VerifyEntry(entry.path).ok(), entry.step != 40) << entry.path;
            }
            ASSERT_TRUE(RemoveLeftovers(TestFiles(), folder, kRun, 41).ok());
            EXPECT_TRUE(Hidden(folder).empty());
          });
      EXPECT_GT(faults, 4u);
    }
  }
}

}  // namespace
}  // namespace muster::checkpoint
