#include "launcher/cli/operate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launcher/config/option_table.h"
#include "tests/unit/cli/state_folder_test.h"

namespace muster::cli {
namespace {

using protocol::OperatorAction;
using ::testing::HasSubstr;

class OperateTest : public StateFolderTest {
 protected:
  void Live(const std::string& name) {
    const host::OperatorAccess access{{"127.0.0.1:1"}, "no certificate", "00", "n1", 77, 0};
    ASSERT_TRUE(host::WriteOperatorAccess({base_ + "/" + name}, access).ok());
  }
  static Status Allowed(OperatorAction action, const std::string& phase,
                        protocol::Outcome outcome = protocol::Outcome::kNone) {
    protocol::RunView view;
    view.phase = phase;
    view.waiting_for = phase == "forming" ? "waiting for n2" : "";
    view.verdict.outcome = outcome;
    return CheckAllowed({config::kCancel, action, ""}, view);
  }
};

TEST_F(OperateTest, OneRunningRunIsChosen) {
  MakeRun("left");
  const std::vector<std::string> both = {base_ + "/left", base_ + "/run1"};
  EXPECT_THAT(ChooseRunning("cancel", both).status().message(),
              HasSubstr("nothing to cancel: run1 in " + base_ + " has no living daemon"));
  Live("left");
  EXPECT_EQ(ChooseRunning("cancel", both).value(), both[0]);
  Live("run1");
  EXPECT_THAT(ChooseRunning("cancel", both).status().message(),
              HasSubstr("2 runs are running: left, run1; choose the one to cancel with --name"));
}

TEST_F(OperateTest, AnEndedRunSaysHowItEnded) {
  Write("runs.json",
        R"({"runs": [{"name": "run1", "job": "12", "restart": 0, "attempt": 0, "command": "",
            "occurrence": 0, "nodes": [], "host": "n1", "pid": 1, "start_time": 1,
            "ended": true}]})");
  protocol::Verdict verdict;
  verdict.outcome = protocol::Outcome::kGoesOnLater;
  verdict.blame.text = "n2 is dead";
  ASSERT_TRUE(host::WriteVerdict({base_ + "/run1"}, 0, verdict).ok());
  EXPECT_THAT(
      ChooseRunning("stop", {base_ + "/run1"}).status().message(),
      HasSubstr("nothing to stop: run1 of job 12 does not run: the run goes on later: n2 is "
                "dead; `scancel 12` takes its job out of the queue"));
  EXPECT_THAT(Instead(base_ + "/run1", {}), HasSubstr("`scancel 12` ends the job"));
  Write("runs.json", "{");
  EXPECT_THAT(Instead(base_ + "/run1", {{}, "", "", "n1", 77, 0}), HasSubstr("`kill 77` on n1"));
}

TEST_F(OperateTest, WhatIsEndingIsLeftAlone) {
  EXPECT_TRUE(Allowed(OperatorAction::kCancel, "forming").ok());
  EXPECT_TRUE(Allowed(OperatorAction::kRestart, "active").ok());
  EXPECT_THAT(Allowed(OperatorAction::kRestart, "forming").message(),
              HasSubstr("the run is forming, waiting for n2"));
  EXPECT_THAT(Allowed(OperatorAction::kCancel, "draining", protocol::Outcome::kFailed).message(),
              HasSubstr("it is ending already: the run failed"));
  // A requeue under way can still be called off.
  EXPECT_TRUE(Allowed(OperatorAction::kCancel, "draining", protocol::Outcome::kGoesOnLater).ok());
}

}  // namespace
}  // namespace muster::cli
