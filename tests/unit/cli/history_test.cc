#include "launcher/cli/history.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launcher/cli/events_report.h"
#include "tests/unit/cli/state_folder_test.h"

namespace muster::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using HistoryTest = StateFolderTest;

constexpr char kSealed[] =
    R"({"unix_ms":1000,"kind":"round sealed","fence":{"attempt":0,"round":1},"node":"","rank":-1,"text":"2 nodes"})"
    "\n";
constexpr char kStarted[] =
    R"({"unix_ms":2000,"kind":"round started","fence":{"attempt":0,"round":1},"node":"","rank":-1,"text":"4 ranks on 2 nodes, cause initial, rank 0 at 127.0.0.1:4"})"
    "\n";
constexpr char kEnded[] =
    R"({"unix_ms":5000,"kind":"round ended","fence":{"attempt":0,"round":1},"node":"n1","rank":3,"text":"rank 3 on n1 exited with code 7"})"
    "\n";

TEST_F(HistoryTest, RoundsAreTold) {
  Write("run1/events-0.jsonl", std::string(kSealed) + kStarted + kEnded);
  const auto rounds = Rounds(ReadHistory(base_ + "/run1"));
  ASSERT_EQ(rounds.size(), 1U);
  EXPECT_EQ(rounds[0].world, "4 ranks on 2 nodes");
  EXPECT_EQ(rounds[0].end, "rank 3 on n1 exited with code 7");
  EXPECT_EQ(rounds[0].rank, 3);
  EXPECT_EQ(rounds[0].ended_ms - rounds[0].started_ms, 3000);
}

TEST_F(HistoryTest, AttemptsComeInOrderOfTheirNumbers) {
  for (const char* attempt : {"10", "2", "x", ""}) {
    Write(std::string("run1/events-") + attempt + ".jsonl",
          std::string(R"({"kind":"last call","fence":{"attempt":)") + attempt + "}}\n");
  }
  const History history = ReadHistory(base_ + "/run1");
  ASSERT_EQ(history.events.size(), 2U);
  EXPECT_EQ(history.events[0].attempt, 2U);
  EXPECT_EQ(history.events[1].attempt, 10U);
}

TEST_F(HistoryTest, DamagedLinesAreCountedAndLeftOut) {
  Write("run1/events-0.jsonl", std::string(kSealed) + "\x01\n[]\n{\"kind\":7}\n" + kStarted +
                                   std::string(kEnded).substr(0, 40));
  const History history = ReadHistory(base_ + "/run1");
  EXPECT_EQ(history.events.size(), 2U);
  ASSERT_EQ(history.problems.size(), 1U);
  EXPECT_THAT(history.problems[0], HasSubstr("4 lines of"));
  Write("run1/events-0.jsonl", "");
  EXPECT_THAT(ReadHistory(base_ + "/run1").events, IsEmpty());
  EXPECT_THAT(ReadHistory(base_ + "/nowhere").problems, IsEmpty());
}

TEST_F(HistoryTest, ValuesOutOfRangeAreNoCrash) {
  Write(
      "run1/events-0.jsonl",
      R"({"unix_ms":-9223372036854775808,"kind":"round ended","fence":7,"rank":99999999999,"text":5})"
      "\n"
      R"({"unix_ms":9223372036854775807,"kind":"round sealed","fence":{"round":-1,"attempt":1e9}})"
      "\n");
  const History history = ReadHistory(base_ + "/run1");
  EXPECT_EQ(history.events.size(), 2U);
  EXPECT_FALSE(EventsText(history).empty());
  EXPECT_THAT(Rounds(history), IsEmpty());
}

TEST_F(HistoryTest, LinesForPeopleAndForScripts) {
  Write("run1/events-0.jsonl", std::string(kEnded));
  const History history = ReadHistory(base_ + "/run1");
  EXPECT_EQ(EventLines(history), kEnded);
  EXPECT_THAT(EventsText(history),
              HasSubstr(":05.000  attempt 0 round 1  round ended       rank 3 on n1 exited"));
}

TEST(Printable, CannotSteerATerminal) {
  EXPECT_EQ(Printable("a\x1b[31mb\tc\n"), "a\\x1b[31mb\tc\\x0a");
  EXPECT_EQ(Printable("abcdef", 3), "abc...");
}

}  // namespace
}  // namespace muster::cli
