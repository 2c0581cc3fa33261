#include "rendezvousd/core/restart_policy.h"

#include <gtest/gtest.h>

#include <string>

#include "rendezvousd/core/exit_codes.h"

namespace muster::core {
namespace {

using protocol::Cause;
using protocol::Config;
using std::chrono::hours;
using std::chrono::seconds;

RoundFailure Failure(Cause cause, bool progressed, std::int32_t code = 0,
                     const std::string& line = "") {
  RoundFailure failure;
  failure.blame.cause = cause;
  failure.blame.exit_code = code;
  failure.blame.text = "it failed";
  if (code != 0) failure.signature = FailureSignature{code, line};
  failure.progressed = progressed;
  return failure;
}

TEST(RestartPolicy, CodeWithoutProgressEndsWithItsOwnCode) {
  RestartPolicy policy;
  const Ruling ruling = policy.Rule({}, Failure(Cause::kCode, false, 3));
  EXPECT_FALSE(ruling.again);
  EXPECT_EQ(ruling.verdict.exit_code, 3);
  EXPECT_EQ(ruling.verdict.outcome, protocol::Outcome::kFailed);
  EXPECT_EQ(ruling.verdict.blame.text,
            "it failed; no progress since the start, so it is not tried again");
}

TEST(RestartPolicy, TheSameFailureWithoutProgressInBetweenIsDeterministic) {
  RestartPolicy policy;
  EXPECT_TRUE(policy.Rule({}, Failure(Cause::kCode, true, 1, "KeyError")).again);
  const Ruling same = policy.Rule({}, Failure(Cause::kCode, false, 1, "KeyError"));
  EXPECT_EQ(same.verdict.exit_code, kExitDeterministic);

  RestartPolicy other;
  EXPECT_TRUE(other.Rule({}, Failure(Cause::kCode, true, 1, "KeyError")).again);
  EXPECT_EQ(other.Rule({}, Failure(Cause::kCode, false, 1, "ValueError")).verdict.exit_code, 1);

  RestartPolicy with_progress;
  EXPECT_TRUE(with_progress.Rule({}, Failure(Cause::kCode, true, 1, "KeyError")).again);
  EXPECT_TRUE(with_progress.Rule({}, Failure(Cause::kCode, true, 1, "KeyError")).again);
}

TEST(RestartPolicy, EachCauseHasItsBudget) {
  RestartPolicy policy;
  EXPECT_TRUE(policy.Rule({}, Failure(Cause::kMemory, true, 137)).again);
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(policy.Rule({}, Failure(Cause::kNode, true)).again);
  const Ruling memory = policy.Rule({}, Failure(Cause::kMemory, true, 137));
  EXPECT_EQ(memory.verdict.exit_code, kExitBudgetSpent);
  EXPECT_NE(memory.verdict.blame.text.find("the budget of 1 restart for cause memory is spent"),
            std::string::npos);
  EXPECT_EQ(policy.Rule({}, Failure(Cause::kNode, true)).verdict.exit_code, kExitBudgetSpent);
  EXPECT_TRUE(policy.Rule({}, Failure(Cause::kNetwork, true)).again);
}

TEST(RestartPolicy, ABudgetOfNoneEndsWithTheWorkersCode) {
  Config config;
  config.budgets[Cause::kCode] = {0};
  config.budgets[Cause::kNode] = {0};
  RestartPolicy policy;
  EXPECT_EQ(policy.Rule(config, Failure(Cause::kCode, true, 9)).verdict.exit_code, 9);
  EXPECT_EQ(policy.Rule(config, Failure(Cause::kNode, true)).verdict.exit_code, kExitBudgetSpent);
}

TEST(RestartPolicy, PausesGrowUntilThereIsProgress) {
  RestartPolicy policy;
  for (const int pause : {0, 1, 4, 15, 15}) {
    EXPECT_EQ(policy.Rule({}, Failure(Cause::kNode, false)).pause, seconds(pause));
  }
  EXPECT_EQ(policy.Rule({}, Failure(Cause::kNode, true)).pause, seconds(0));
  EXPECT_EQ(policy.Rule({}, Failure(Cause::kNode, false)).pause, seconds(1));
}

TEST(RestartPolicy, PeopleAndGrowthCostNothing) {
  Config config;
  config.budgets[Cause::kOperator] = {0};
  RestartPolicy policy;
  for (int i = 0; i < 100; ++i) {
    const Ruling ruling = policy.Rule(config, Failure(Cause::kOperator, false));
    EXPECT_TRUE(ruling.again);
    EXPECT_EQ(ruling.pause, seconds(0));
  }
  EXPECT_EQ(policy.Spent(Cause::kOperator), 0U);
}

TEST(RestartPolicy, ADayOfProgressGivesOneBack) {
  RestartPolicy policy;
  EXPECT_TRUE(policy.Rule({}, Failure(Cause::kMemory, true, 137)).again);
  RoundFailure day = Failure(Cause::kMemory, true, 137);
  day.ran = hours(23);
  EXPECT_FALSE(policy.Rule({}, day).again);
  day.ran = hours(24);
  EXPECT_TRUE(policy.Rule({}, day).again);
  EXPECT_EQ(policy.Spent(Cause::kMemory), 1U);
  day.progressed = false;
  EXPECT_FALSE(policy.Rule({}, day).again);
}

TEST(RestartPolicy, KillsFromOutsideAreNoFailureOfTheCode) {
  protocol::WorkerExited exit;
  exit.signal = 9;
  EXPECT_EQ(ChargedCause(exit), Cause::kAgent);
  exit.signal = 15;
  EXPECT_EQ(ChargedCause(exit), Cause::kAgent);
  exit.signal = 11;
  EXPECT_EQ(ChargedCause(exit), Cause::kCode);
  exit.signal = 9;
  exit.cause = Cause::kMemory;
  EXPECT_EQ(ChargedCause(exit), Cause::kMemory);
}

TEST(ExitCodes, AWorkersCodeNeverReadsAsOneOfOurs) {
  for (int code = -300; code <= 600; ++code) {
    const std::int32_t run = RunExitCode(code);
    EXPECT_GT(run, 0);
    EXPECT_LE(run, 255);
    EXPECT_FALSE(run >= 64 && run <= 75) << code;
    EXPECT_FALSE(run >= 121 && run <= 124) << code;
  }
  EXPECT_EQ(RunExitCode(7), 7);
  EXPECT_EQ(RunExitCode(137), 137);
  EXPECT_EQ(RunExitCode(75), 1);
  EXPECT_EQ(RunExitCode(0), 1);
}

}  // namespace
}  // namespace muster::core
