#include "launcher/cli/status_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "launcher/host/state_folder.h"
#include "tests/unit/cli/state_folder_test.h"

namespace muster::cli {
namespace {

using ::testing::HasSubstr;

using StatusReport = StateFolderTest;

TEST_F(StatusReport, FilesTellWhatTheDaemonWrote) {
  Write("run1/status.json",
        R"({"phase": "active", "fence": {"attempt": 1, "round": 4}, "world_size": 8,
            "waiting_for": "", "verdict": {"outcome": "none", "exit_code": 0},
            "agents": [{"node": "n1", "state": "in round", "node_rank": 0, "last_step": 17}]})");
  const auto runs = ReadRuns(base_);
  ASSERT_TRUE(runs.ok()) << runs.status().ToString();
  ASSERT_EQ(runs->size(), 1U);
  EXPECT_FALSE(runs->front().live);
  const std::string text = ReportText(base_, *runs);
  EXPECT_THAT(text, HasSubstr("run1: active, attempt 1 round 4, world size 8"));
  EXPECT_THAT(text, HasSubstr("n1  in round, node rank 0, step 17"));
}

TEST_F(StatusReport, TheVerdictFileWinsAlsoWhereNoStatusWasWritten) {
  protocol::Verdict verdict;
  verdict.outcome = protocol::Outcome::kFailed;
  verdict.exit_code = 7;
  verdict.blame.text = "rank 2 on n2 ended with exit code 7";
  ASSERT_TRUE(host::WriteVerdict({base_ + "/run1"}, 3, verdict).ok());
  const auto runs = ReadRuns(base_);
  ASSERT_TRUE(runs.ok());
  EXPECT_THAT(ReportText(base_, *runs),
              HasSubstr("run1: failed, exit code 7: rank 2 on n2 ended with exit code 7"));
  const auto json = nlohmann::json::parse(ReportJson(base_, *runs));
  EXPECT_EQ(json["verdict"]["outcome"], "failed");
  EXPECT_EQ(json["name"], "run1");
}

TEST_F(StatusReport, TheVerdictOfAnEarlierAttemptSaysNothingAboutThisOne) {
  protocol::Verdict verdict;
  verdict.outcome = protocol::Outcome::kGoesOnLater;
  ASSERT_TRUE(host::WriteVerdict({base_ + "/run1"}, 0, verdict).ok());
  Write("run1/status.json", R"({"phase": "active", "fence": {"attempt": 1, "round": 1}})");
  EXPECT_THAT(ReportText(base_, *ReadRuns(base_)), HasSubstr("run1: active, attempt 1 round 1"));
}

TEST_F(StatusReport, SeveralRunsAreAllThere) {
  MakeRun("left");
  const auto runs = ReadRuns(base_);
  ASSERT_TRUE(runs.ok());
  EXPECT_EQ(nlohmann::json::parse(ReportJson(base_, *runs))["runs"].size(), 2U);
  EXPECT_EQ(ReadRuns(base_ + "/left")->size(), 1U);
}

TEST_F(StatusReport, ADeadDaemonIsSaidAndDoesNotHang) {
  Write("run1/status.json", R"({"phase": "active"})");
  host::OperatorAccess access{{"127.0.0.1:1"}, "no certificate", "00", "n1", 1, 0};
  ASSERT_TRUE(host::WriteOperatorAccess({base_ + "/run1"}, access).ok());
  const auto runs = ReadRuns(base_);
  ASSERT_TRUE(runs.ok());
  EXPECT_THAT(ReportText(base_, *runs), HasSubstr("the daemon on n1 does not answer"));
}

TEST_F(StatusReport, DamagedFilesAreNoCrash) {
  for (const char* text : {"", "{", "[]", "{\"fence\": 5}", "{\"agents\": 7}",
                           "{\"verdict\": {\"outcome\": 7}}", "{\"waiting_for\": 1}"}) {
    Write("run1/status.json", text);
    const auto runs = ReadRuns(base_);
    ASSERT_TRUE(runs.ok());
    EXPECT_FALSE(ReportText(base_, *runs).empty()) << text;
    EXPECT_FALSE(ReportJson(base_, *runs).empty()) << text;
  }
}

}  // namespace
}  // namespace muster::cli
