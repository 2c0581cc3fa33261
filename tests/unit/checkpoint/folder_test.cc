#include "checkpoint/folder.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <functional>
#include <string>

#include "checkpoint/names.h"
#include "tests/unit/checkpoint/fixtures.h"

namespace muster::checkpoint {
namespace {

std::string Entry(const TemporaryFolder& folder, std::uint64_t step) {
  return folder.path() + "/" + EntryName(step);
}

TEST(Folder, OrderIsByNumber) {
  TemporaryFolder folder;
  for (std::uint64_t step : {10'000ull, 9'900ull, 1'000'000'000'000ull, 999'999'999'999ull}) {
    ASSERT_TRUE(WriteTestEntry(TestFiles(), folder.path(), "run1", step).ok());
  }
  WriteText(folder.path() + "/notes.txt", "mine");
  WriteText(Entry(folder, 77), "a file with an entry's name");
  std::filesystem::create_directory(folder.path() + "/step-5");
  EXPECT_EQ(Steps(folder.path()),
            (std::vector<std::uint64_t>{9'900, 10'000, 999'999'999'999, 1'000'000'000'000}));
  EXPECT_EQ(NewestVerified(folder.path())->entry.step, 1'000'000'000'000u);
}

TEST(Folder, NothingThereIsNotDamage) {
  TemporaryFolder folder;
  EXPECT_EQ(NewestVerified(folder.path()).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(NewestVerified(folder.path() + "/none").status().code(), StatusCode::kNotFound);
  ASSERT_TRUE(WriteTestEntry(TestFiles(), folder.path(), "other", 90).ok());
  const Status foreign = NewestVerified(folder.path(), "run1").status();
  EXPECT_EQ(foreign.code(), StatusCode::kNotFound);
  EXPECT_NE(foreign.message().find("belongs to run \"other\""), std::string::npos);
}

TEST(Folder, OnlyDamagedOnesAreNotAFreshStart) {
  TemporaryFolder folder;
  for (std::uint64_t step = 1; step <= 5; ++step) {
    ASSERT_TRUE(WriteTestEntry(TestFiles(), folder.path(), "run1", step).ok());
    FlipByte(Entry(folder, step) + "/rank-1", 0);
  }
  const Status status = NewestVerified(folder.path(), "run1").status();
  EXPECT_EQ(status.code(), StatusCode::kDataLoss);
  EXPECT_NE(status.message().find("step 5"), std::string::npos) << status.message();
  EXPECT_NE(status.message().find("and 2 more"), std::string::npos) << status.message();
}

TEST(Folder, ANewerFormatIsNotAFreshStart) {
  TemporaryFolder folder;
  std::filesystem::create_directory(Entry(folder, 3));
  WriteText(Entry(folder, 3) + "/manifest.json",
            R"({"format":"muster-checkpoint","version":9,"digest":"","run":"run1"})");
  const Status status = NewestVerified(folder.path(), "run1").status();
  EXPECT_EQ(status.code(), StatusCode::kDataLoss);
  EXPECT_NE(status.message().find("version 9 is newer"), std::string::npos);
}

TEST(Folder, StaleStepsOfAnotherRunAreSkippedWithTheReason) {
  TemporaryFolder folder;
  ASSERT_TRUE(WriteTestEntry(TestFiles(), folder.path(), "run1", 10).ok());
  ASSERT_TRUE(WriteTestEntry(TestFiles(), folder.path(), "old", 500).ok());
  const auto found = NewestVerified(folder.path(), "run1");
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found->entry.step, 10u);
  ASSERT_EQ(found->skipped.size(), 1u);
  EXPECT_EQ(found->skipped[0].entry.step, 500u);
  EXPECT_EQ(NewestVerified(folder.path())->entry.step, 500u);
}

// Each way an entry can be broken, found and named; the one before it is used.
TEST(Folder, EveryKindOfDamageIsSeen) {
  struct Damage {
    const char* name;
    const char* message;
    std::function<void(const std::string&)> apply;
  };
  const Damage damages[] = {
      {"flipped bit", "digest", [](const std::string& e) { FlipByte(e + "/rank-1", 17); }},
      {"cut short", "bytes instead of",
       [](const std::string& e) { std::filesystem::resize_file(e + "/rank-1", 9); }},
      {"grown", "bytes instead of",
       [](const std::string& e) { std::filesystem::resize_file(e + "/rank-1", 900); }},
      {"zeroes", "digest",
       [](const std::string& e) { WriteText(e + "/rank-1", std::string(140, '\0')); }},
      {"shard missing", "missing",
       [](const std::string& e) { std::filesystem::remove(e + "/rank-0"); }},
      {"manifest missing", "No such file",
       [](const std::string& e) { std::filesystem::remove(e + "/manifest.json"); }},
      {"manifest empty", "not JSON",
       [](const std::string& e) { WriteText(e + "/manifest.json", ""); }},
      {"manifest of another step", "says it is step 1",
       [](const std::string& e) {
         std::filesystem::copy_file(
             std::filesystem::path(e).parent_path() / EntryName(1) / "manifest.json",
             e + "/manifest.json", std::filesystem::copy_options::overwrite_existing);
       }},
      {"a link", "not a regular file",
       [](const std::string& e) {
         std::filesystem::rename(e + "/rank-1", e + "/elsewhere");
         std::filesystem::create_symlink("elsewhere", e + "/rank-1");
       }},
      {"a pipe", "not a regular file",
       [](const std::string& e) {
         std::filesystem::remove(e + "/rank-1");
         ASSERT_EQ(mkfifo((e + "/rank-1").c_str(), 0600), 0);
       }},
      {"a folder", "not a regular file",
       [](const std::string& e) {
         std::filesystem::remove(e + "/rank-1");
         std::filesystem::create_directory(e + "/rank-1");
       }},
      {"manifest is a pipe", "not a regular file",
       [](const std::string& e) {
         std::filesystem::remove(e + "/manifest.json");
         ASSERT_EQ(mkfifo((e + "/manifest.json").c_str(), 0600), 0);
       }},
      {"manifest is huge", "more than",
       [](const std::string& e) {
         std::filesystem::resize_file(e + "/manifest.json", std::uintmax_t{1} << 40);
       }},
  };
  for (const Damage& damage : damages) {
    SCOPED_TRACE(damage.name);
    TemporaryFolder folder;
    ASSERT_TRUE(WriteTestEntry(TestFiles(), folder.path(), "run1", 1).ok());
    ASSERT_TRUE(WriteTestEntry(TestFiles(), folder.path(), "run1", 2).ok());
    damage.apply(Entry(folder, 2));
    const auto found = NewestVerified(folder.path(), "run1");
    ASSERT_TRUE(found.ok()) << found.status().ToString();
    EXPECT_EQ(found->entry.step, 1u);
    ASSERT_EQ(found->skipped.size(), 1u);
    EXPECT_NE(found->skipped[0].reason.message().find(damage.message), std::string::npos)
        << found->skipped[0].reason.message();
    EXPECT_NE(found->skipped[0].reason.message().find(EntryName(2)), std::string::npos)
        << "which entry? " << found->skipped[0].reason.message();
  }
}

TEST(Folder, SizesAloneDoNotSeeAFlippedBit) {
  TemporaryFolder folder;
  ASSERT_TRUE(WriteTestEntry(TestFiles(), folder.path(), "run1", 2).ok());
  FlipByte(Entry(folder, 2) + "/rank-1", 17);
  EXPECT_TRUE(VerifyEntry(Entry(folder, 2), VerifyDepth::kSizes).ok());
  EXPECT_FALSE(VerifyEntry(Entry(folder, 2), VerifyDepth::kDigests).ok());
}

}  // namespace
}  // namespace muster::checkpoint
