#include "launcher/cli/log_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/cli/state_folder_test.h"

namespace muster::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class LogFiles : public StateFolderTest {
 protected:
  std::vector<LogFile> List() { return ListLogs(base_ + "/run1/logs"); }
  static std::string All(const LogFile& log, int rank = -1) {
    Offsets offsets;
    std::string text;
    ReadLog(log, rank, true, &offsets, [&](std::string_view line) { text += line; });
    return text;
  }
};

TEST_F(LogFiles, AreListedInOrderWithTheirParts) {
  const std::string logs = "run1/logs/";
  Write(logs + "attempt-0/rank-10.round-1.log", "x");
  Write(logs + "attempt-0/rank-2.round-1.log", "head\n");
  Write(logs + "attempt-0/rank-2.round-1.log.part-00002", "new\n");
  Write(logs + "attempt-0/rank-2.round-1.log.part-00001", "old\n");
  Write(logs + "attempt-0/rank-2.round-10.log", "");
  Write(logs + "attempt-1/n3.task-2.round-2.log.part-00007", "[rank 5] a\n");
  for (const char* other : {"notes", "attempt-x/rank-1.round-1.log", "attempt-0/rank-1.log",
                            "attempt-0/.round-1.log", "attempt-0/rank-1.round-.log"}) {
    Write(logs + other, "?");
  }
  const auto list = List();
  std::vector<std::string> seen;
  for (const LogFile& log : list) {
    seen.push_back(std::to_string(log.attempt) + "." + std::to_string(log.round) + " " +
                   (log.rank < 0 ? log.agent : std::to_string(log.rank)));
  }
  EXPECT_THAT(seen, ElementsAre("0.1 2", "0.1 10", "0.10 2", "1.2 n3.task-2"));
  EXPECT_EQ(list[0].parts.size(), 3U);
  EXPECT_EQ(list[0].bytes, 13U);
  EXPECT_EQ(All(list[0]), "head\nold\nnew\n");
  EXPECT_THAT(LastLines(list[0], 2), ElementsAre("old", "new"));
  EXPECT_THAT(LastLines(list[2], 2), IsEmpty());
  EXPECT_TRUE(list[3].path.ends_with("n3.task-2.round-2.log"));
  EXPECT_EQ(All(list[3], 5), "a\n");
  EXPECT_THAT(ListLogs(folder_ + "/nowhere"), IsEmpty());
}

TEST_F(LogFiles, OfOneRankInALogOfAnAgent) {
  Write("run1/logs/attempt-0/n1.round-1.log", "[rank 1] a\n[rank 10] b\n[rank 1] c\nno rank\n");
  Write("run1/logs/attempt-0/n2.round-1.log", "[rank 2] d\n");
  const auto of_one = LogsOfRank(List(), 1);
  ASSERT_EQ(of_one.size(), 1U);
  EXPECT_EQ(All(of_one[0], 1), "a\nc\n");
  EXPECT_THAT(LastLines(of_one[0], 5, 1), ElementsAre("a", "c"));
  EXPECT_THAT(LogsOfRank(List(), 3), IsEmpty());
}

TEST_F(LogFiles, AreReadOnFromWhereTheyWereLeft) {
  const std::string name = "run1/logs/attempt-0/rank-0.round-1.log";
  Offsets offsets;
  std::string text;
  const auto read = [&](bool to_the_end) {
    ReadLog(List().at(0), -1, to_the_end, &offsets, [&](std::string_view line) { text += line; });
  };
  Write(name, "one\ntw");
  read(false);
  EXPECT_EQ(text, "one\n");
  Write(name, "one\ntwo\nthr");
  read(false);
  EXPECT_EQ(text, "one\ntwo\n");
  read(true);
  EXPECT_EQ(text, "one\ntwo\nthr");
}

TEST_F(LogFiles, OfAProgressBarTheNewestStateAndNoControlBytes) {
  Write("run1/logs/attempt-0/rank-0.round-1.log", "first\n 1%\r 50%\r 99%\r\n\x1b[1mbold\n\n");
  EXPECT_THAT(LastLines(List().at(0), 9), ElementsAre("first", " 99%", "\\x1b[1mbold"));
}

TEST_F(LogFiles, AreWhereTheRunsFirstStartPutThem) {
  EXPECT_EQ(LogFolder(base_ + "/run1"), base_ + "/run1/logs");
  std::filesystem::create_directories(folder_ + "/elsewhere");
  Write("run1/spec.json", "{\"log_dir\": \"" + folder_ + "/elsewhere\"}");
  EXPECT_EQ(LogFolder(base_ + "/run1"), folder_ + "/elsewhere");
  for (const char* spec : {"", "{", "{\"log_dir\": 5}", "{\"log_dir\": \"/nowhere/at/all\"}"}) {
    Write("run1/spec.json", spec);
    EXPECT_EQ(LogFolder(base_ + "/run1"), base_ + "/run1/logs") << spec;
  }
}

TEST(Size, IsForPeople) {
  EXPECT_EQ(Size(17), "17 B");
  EXPECT_EQ(Size(1536), "1.5 KiB");
  EXPECT_EQ(Size(std::uint64_t{56} << 20U), "56.0 MiB");
}

}  // namespace
}  // namespace muster::cli
