#include "checkpoint/writer.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "checkpoint/names.h"
#include "common/text.h"
#include "tests/unit/checkpoint/faulty_disk.h"
#include "tests/unit/checkpoint/fixtures.h"

namespace muster::checkpoint {
namespace {

TEST(Writer, AnEntryHoldsWhatItWasGiven) {
  TemporaryFolder folder;
  const auto path = WriteTestEntry(SystemFiles(), folder.path(), "run1", 42, 3);
  ASSERT_TRUE(path.ok()) << path.status().ToString();
  EXPECT_EQ(*path, folder.path() + "/step-000000000042");
  const auto manifest = VerifyEntry(*path);
  ASSERT_TRUE(manifest.ok()) << manifest.status().ToString();
  EXPECT_EQ(manifest->run, "run1");
  EXPECT_EQ(manifest->step, 42u);
  EXPECT_EQ(manifest->world_size, 3u);
  EXPECT_EQ(std::get<std::uint64_t>(manifest->scalars.at("seed")), 7u);
  EXPECT_EQ(manifest->shards.size(), 3u);
  const std::string bytes = ReadText(*path + "/rank-1");
  const std::vector<float> expected = TestValues(42, 23, 23);
  ASSERT_EQ(bytes.size(), expected.size() * sizeof(float));
  EXPECT_EQ(std::memcmp(bytes.data(), expected.data(), bytes.size()), 0);
}

TEST(Writer, ManyProcessesOneEntry) {
  TemporaryFolder folder;
  TestEntry entry = MakeTestEntry("run1", 5, 4);
  const auto temporary = CreateTemporary(SystemFiles(), folder.path(), "run1", 5);
  ASSERT_TRUE(temporary.ok());
  for (const ShardSource& shard : entry.shards) {
    EXPECT_EQ(NewestVerified(folder.path()).status().code(), StatusCode::kNotFound);
    auto record = WriteShard(SystemFiles(), *temporary, shard);
    ASSERT_TRUE(record.ok());
    entry.manifest.shards.push_back(*record);
  }
  // A shard that never came, or came short: no entry.
  const std::string last = *temporary + "/rank-3";
  const std::string kept = ReadText(last);
  std::filesystem::remove(last);
  EXPECT_EQ(CommitEntry(SystemFiles(), folder.path(), *temporary, entry.manifest).status().code(),
            StatusCode::kNotFound);
  WriteText(last, kept.substr(1));
  EXPECT_EQ(CommitEntry(SystemFiles(), folder.path(), *temporary, entry.manifest).status().code(),
            StatusCode::kDataLoss);
  WriteText(last, kept);
  const auto path = CommitEntry(SystemFiles(), folder.path(), *temporary, entry.manifest);
  ASSERT_TRUE(path.ok()) << path.status().ToString();
  EXPECT_TRUE(VerifyEntry(*path).ok());
}

TEST(Writer, AGoodEntryIsNotOverwritten) {
  TemporaryFolder folder;
  ASSERT_TRUE(WriteTestEntry(TestFiles(), folder.path(), "run1", 42).ok());
  EXPECT_EQ(WriteTestEntry(TestFiles(), folder.path(), "run1", 42).status().code(),
            StatusCode::kAlreadyExists);
  EXPECT_EQ(VerifyEntry(folder.path() + "/" + EntryName(42))->run, "run1");
}

// AlreadyExists would read as "saved": the run would find nothing of its own to resume from.
TEST(Writer, AnotherRunsEntryIsNoneOfOursGoodOrDamaged) {
  TemporaryFolder folder;
  ASSERT_TRUE(WriteTestEntry(TestFiles(), folder.path(), "run1", 42).ok());
  const std::string entry = folder.path() + "/" + EntryName(42);
  for (const bool damaged : {false, true}) {
    if (damaged) FlipByte(entry + "/rank-0", 3);
    const Status status = WriteTestEntry(TestFiles(), folder.path(), "run2", 42).status();
    EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition) << status.ToString();
    EXPECT_NE(status.message().find("belongs to run \"run1\""), std::string::npos);
    EXPECT_EQ(ReadManifest(entry)->run, "run1");
  }
}

// What cannot be judged now may be good: only damage is moved away.
TEST(Writer, AnEntryThatCannotBeReadStays) {
  TemporaryFolder folder;
  ASSERT_TRUE(WriteTestEntry(TestFiles(), folder.path(), "run1", 42).ok());
  const std::string entry = folder.path() + "/" + EntryName(42);
  const std::string manifest = entry + "/" + std::string(kManifestName);
  std::string text = ReadText(manifest);
  const std::size_t place = text.find("\"version\": 1");
  ASSERT_NE(place, std::string::npos);
  text.replace(place, 12, "\"version\": 9");
  WriteText(manifest, text);
  EXPECT_EQ(WriteTestEntry(TestFiles(), folder.path(), "run1", 42).status().code(),
            StatusCode::kFailedPrecondition);
  EXPECT_EQ(ReadText(manifest), text);
}

TEST(Writer, RefusesSourcesThatDoNotFitTheirRecord) {
  TemporaryFolder folder;
  TestEntry entry = MakeTestEntry("run1", 5, 1);
  entry.shards[0].tensors[0].data = entry.shards[0].tensors[0].data.first(8);
  const Status status =
      WriteEntry(SystemFiles(), folder.path(), entry.manifest, entry.shards).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("8 bytes instead of 280"), std::string::npos);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

// What matters after a failed save: the name, how far it got, what to do.
TEST(Writer, AFullDiskSaysWhichFileHowFarAndWhatToDo) {
  TemporaryFolder folder;
  FaultyDisk disk(Fault::kError, 2);  // folder, file, then the first write
  const Status status = WriteTestEntry(disk, folder.path(), "run1", 42).status();
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  for (const char* part : {"rank-0", "after 0 of 144 bytes", "No space left", "keep fewer"}) {
    EXPECT_NE(status.message().find(part), std::string::npos) << part << ": " << status.message();
  }
}

// Larger than the writer's pieces, in spans that touch and spans that do not.
TEST(Writer, LargeShardsAreWrittenInPieces) {
  TemporaryFolder folder;
  std::vector<float> values(3'000'000);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  const auto all = std::as_bytes(std::span<const float>(values));
  ShardSource shard{"rank-0", {}};
  std::uint64_t first = 0;
  for (std::uint64_t count : {1'000'000u, 7u, 499'993u, 1'500'000u}) {
    shard.tensors.push_back({{Concat("t", count), ElementType::kFloat32, {count}, 0, count, 0},
                             all.subspan(first * 4, count * 4)});
    first += count;
  }
  std::swap(shard.tensors[0], shard.tensors[3]);  // no longer in memory order
  Manifest manifest{.run = "r", .step = 1, .world_size = 1, .scalars = {}, .shards = {}};
  const auto path = WriteEntry(SystemFiles(), folder.path(), manifest, std::span(&shard, 1));
  ASSERT_TRUE(path.ok()) << path.status().ToString();
  ASSERT_TRUE(VerifyEntry(*path).ok());
  const std::string text = ReadText(*path + "/rank-0");
  const auto written = std::as_bytes(std::span(text));
  std::size_t at = 0;
  for (const TensorSource& tensor : shard.tensors) {
    EXPECT_TRUE(std::equal(tensor.data.begin(), tensor.data.end(),
                           written.begin() + static_cast<long>(at)));
    at += tensor.data.size();
  }
}

TEST(Writer, SpaceIsAskedForBefore) {
  TemporaryFolder folder;
  EXPECT_TRUE(CheckSpace(folder.path(), 1).ok());
  EXPECT_EQ(CheckSpace(folder.path(), std::uint64_t{1} << 60).code(),
            StatusCode::kResourceExhausted);
  EXPECT_EQ(CheckSpace(folder.path() + "/none", 1).code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace muster::checkpoint
