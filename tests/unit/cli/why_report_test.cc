#include "launcher/cli/why_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launcher/cli/logs_report.h"
#include "launcher/host/state_folder.h"
#include "tests/unit/cli/state_folder_test.h"

namespace muster::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class WhyReport : public StateFolderTest {
 protected:
  Story Read() { return ReadStory(base_ + "/run1"); }
  void WriteVerdict(protocol::Outcome outcome, int rank, const std::string& node,
                    const std::string& text) {
    protocol::Verdict verdict;
    verdict.outcome = outcome;
    verdict.exit_code = 7;
    verdict.blame.rank = rank;
    verdict.blame.node = node;
    verdict.blame.text = text;
    ASSERT_TRUE(host::WriteVerdict({base_ + "/run1"}, 0, verdict).ok());
  }
  static std::string Line(int round, const std::string& kind, const std::string& node, int rank,
                          const std::string& text) {
    return R"({"unix_ms":)" + std::to_string(1000 * round) + R"(,"kind":")" + kind +
           R"(","fence":{"attempt":0,"round":)" + std::to_string(round) + R"(},"node":")" + node +
           R"(","rank":)" + std::to_string(rank) + R"(,"text":")" + text + "\"}\n";
  }
  void WriteTwoRounds() {
    std::string events;
    for (const int round : {1, 2}) {
      events +=
          Line(round, "round sealed", "", -1, "2 nodes, 4 ranks: n1, n2") +
          Line(round, "round started", "", -1, "4 ranks on 2 nodes, cause code, rank 0 at a:1");
      const int rank = round == 1 ? 1 : 2;
      const std::string node = round == 1 ? "n1" : "n2";
      const std::string text = "rank " + std::to_string(rank) + " on " + node + " exited";
      events += Line(round, "worker exited", node, rank, text) +
                Line(round, "round ended", node, rank, text);
    }
    Write("run1/events-0.jsonl", events);
    Write("run1/logs/attempt-0/rank-1.round-1.log", "of the first round\n");
    Write("run1/logs/attempt-0/rank-2.round-1.log", "wrong round\n");
    Write("run1/logs/attempt-0/rank-2.round-2.log", "before\nValueError: bad batch\n");
  }
};

TEST_F(WhyReport, OneSentenceThenEvidenceRoundsAndTheLog) {
  WriteTwoRounds();
  WriteVerdict(protocol::Outcome::kFailed, 2, "n2", "rank 2 on n2 exited; not tried again");
  const std::string text = WhyText(Read());
  EXPECT_TRUE(text.starts_with("run1: the run failed: rank 2 on n2 exited; not tried again\n"))
      << text;
  EXPECT_THAT(text, HasSubstr("worker exited  rank 2 on n2 exited\n"));
  EXPECT_THAT(text, Not(HasSubstr("worker exited  rank 1")));
  EXPECT_THAT(text, HasSubstr("attempt 0 round 1"));
  EXPECT_THAT(text, HasSubstr("4 ranks on 2 nodes, ended after 0.0 s: rank 1 on n1 exited\n"));
  EXPECT_THAT(text, HasSubstr("rank-2.round-2.log (29 B), its last lines:\n    | before\n"
                              "    | ValueError: bad batch\n"));
  const Json json = WhyJson(Read());
  EXPECT_EQ(json["first_failure"]["rank"], 2);
  EXPECT_EQ(json["first_failure"]["round"], 2);
  EXPECT_EQ(json["first_failure"]["last_lines"].size(), 2U);
  EXPECT_EQ(json["rounds"].size(), 2U);
  EXPECT_EQ(json["outcome"], "failed");
}

TEST_F(WhyReport, OfAWorldWithALogForEachNode) {
  WriteTwoRounds();
  std::filesystem::remove_all(base_ + "/run1/logs");
  Write("run1/logs/attempt-0/n2.round-2.log", "[rank 2] mine\n[rank 3] not mine\n");
  Write("run1/logs/attempt-0/n1.round-2.log", "[rank 0] nor this\n");
  WriteVerdict(protocol::Outcome::kFailed, 2, "n2", "rank 2 on n2 exited");
  const std::string text = WhyText(Read());
  EXPECT_THAT(text, HasSubstr("n2.round-2.log"));
  EXPECT_THAT(text, HasSubstr("    | mine\n"));
  EXPECT_THAT(text, Not(HasSubstr("not mine")));
}

TEST_F(WhyReport, WhatSucceededHasNobodyToBlame) {
  WriteTwoRounds();
  WriteVerdict(protocol::Outcome::kSucceeded, -1, "", "");
  const std::string text = WhyText(Read());
  EXPECT_TRUE(text.starts_with("run1: the run succeeded\n")) << text;
  EXPECT_THAT(text, HasSubstr("3 logs in"));
  EXPECT_FALSE(WhyJson(Read()).contains("first_failure"));
  // But a reader can still ask for the newest failure's log.
  const auto chosen = ChooseLogs(Read(), {.first_failing = true});
  ASSERT_TRUE(chosen.ok());
  EXPECT_TRUE(chosen->logs[0].path.ends_with("rank-2.round-2.log"));
}

TEST_F(WhyReport, ALostNodeHasNoRank) {
  Write("run1/events-0.jsonl", Line(1, "round started", "", -1, "2 ranks on 2 nodes") +
                                   Line(1, "agent dead", "n2", -1, "n2/0.0: Slurm says DOWN") +
                                   Line(1, "round ended", "n2", -1, "n2 is dead"));
  WriteVerdict(protocol::Outcome::kGoesOnLater, -1, "n2", "n2 is dead");
  const std::string text = WhyText(Read());
  EXPECT_TRUE(text.starts_with("run1: the run goes on later: n2 is dead\n")) << text;
  EXPECT_THAT(text, HasSubstr("agent dead  n2/0.0: Slurm says DOWN"));
  EXPECT_THAT(ChooseLogs(Read(), {.first_failing = true}).status().message(),
              HasSubstr("no rank failed first but n2: n2 is dead"));
}

TEST_F(WhyReport, EventsAloneTellToo) {
  WriteTwoRounds();
  const Story story = Read();
  EXPECT_TRUE(Answers(story));
  EXPECT_THAT(WhyText(story),
              HasSubstr("no status and no verdict are written; the last event, at"));
  EXPECT_THAT(WhyText(story), HasSubstr("ValueError: bad batch"));
}

TEST_F(WhyReport, NothingAtAllIsASentence) {
  const Story story = Read();
  EXPECT_FALSE(Answers(story));
  EXPECT_THAT(WhyText(story), HasSubstr("run1: nothing is known: "));
}

TEST_F(WhyReport, DamagedFilesAreSentences) {
  for (const char* status : {"", "{", "[]", "7", "{\"fence\": 5}", "{\"verdict\": 7}",
                             "{\"last_blame\": {\"rank\": []}}",
                             "{\"verdict\": {\"outcome\": \"failed\", \"exit_code\": \"x\", "
                             "\"blame\": {\"rank\": 1e99}}}"}) {
    for (const char* events : {"", "{", "{}\n", "{\"kind\": \"round ended\"}\n"}) {
      for (const char* verdict : {"", "{\"verdict\"", "{\"verdict\": {\"outcome\": \"failed\"}}"}) {
        Write("run1/status.json", status);
        Write("run1/events-0.jsonl", events);
        Write("run1/verdict-0.json", verdict);
        Write("run1/operator.json", verdict);
        const Story story = Read();
        EXPECT_TRUE(WhyText(story).starts_with("run1: ")) << status << events << verdict;
        EXPECT_FALSE(Dump(WhyJson(story)).empty());
        EXPECT_FALSE(ChooseLogs(story, {.rank = 1}).ok());
      }
    }
  }
}

TEST_F(WhyReport, LogsAreListedAndMissingOnesNamed) {
  WriteTwoRounds();
  const Story story = Read();
  const std::string text = LogsText("run1", story.log_folder, story.logs);
  EXPECT_THAT(text, HasSubstr("attempt-0/rank-2.round-2.log        29 B  ValueError: bad batch\n"));
  EXPECT_THAT(ChooseLogs(story, {.rank = 2})->logs.size(), 2U);
  EXPECT_THAT(ChooseLogs(story, {.rank = 7}).status().message(),
              HasSubstr("rank 7 has no log in " + story.log_folder + "; there are ranks 1 to 2"));
  EXPECT_THAT(LogsText("run1", "/f", {}), HasSubstr("no worker's output is in /f"));
}

}  // namespace
}  // namespace muster::cli
