#include "launcher/host/agents_step.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <string>
#include <vector>

namespace muster::host {
namespace {

class AgentsStepTest : public ::testing::Test {
 protected:
  void Make(const std::vector<std::string>& scripts,
            std::function<void(StepProcess*)> before_restart = {}) {
    std::vector<StepProcess> processes;
    for (const std::string& script : scripts) {
      StepProcess process;
      process.what = "the agent of " + script;
      process.node = script;
      process.request.argv = {"/bin/sh", "-c", script};
      process.request.environment = {"PATH=/usr/bin:/bin"};
      processes.push_back(std::move(process));
    }
    step_ =
        std::make_unique<AgentsStep>(&loop_, std::move(processes),
                                     AgentsStep::Events{
                                         .ended =
                                             [this](const StepProcess&, const std::string& reason) {
                                               ended_.push_back(reason);
                                               if (ended_.size() == wanted_) loop_.Stop();
                                             },
                                         .closed =
                                             [this] {
                                               closed_ = true;
                                               loop_.Stop();
                                             },
                                         .before_restart = std::move(before_restart),
                                     });
    ASSERT_TRUE(step_->Start().ok());
  }

  agent::EventLoop loop_;
  std::unique_ptr<AgentsStep> step_;
  std::vector<std::string> ended_;
  std::size_t wanted_ = 1;
  bool closed_ = false;
};

TEST_F(AgentsStepTest, AnOrderlyEndIsNotRepeated) {
  Make({"exit 0"});
  ASSERT_TRUE(loop_.Run().ok());
  EXPECT_EQ(ended_, std::vector<std::string>{"the agent of exit 0 ended with exit code 0"});
  EXPECT_EQ(step_->restarts(), 0);
}

TEST_F(AgentsStepTest, WhoTriedInVainForLongIsNotRepeatedWhoWasRefusedAtOnceIs) {
  Make({"sleep 5.2; exit 69"});
  ASSERT_TRUE(loop_.Run().ok());
  EXPECT_EQ(step_->restarts(), 0);
  ended_.clear();
  Make({"exit 69"});
  ASSERT_TRUE(loop_.Run().ok());
  EXPECT_EQ(step_->restarts(), 3);
}

TEST_F(AgentsStepTest, ADeathIsRepeatedSomeTimes) {
  Make({"kill -9 $$"});
  ASSERT_TRUE(loop_.Run().ok());
  EXPECT_EQ(ended_.size(), 1U);
  EXPECT_EQ(step_->restarts(), 3);
}

TEST_F(AgentsStepTest, WhatIsStartedAgainMayBeAnother) {
  Make({"kill -9 $$"}, [](StepProcess* process) { process->request.argv[2] = "exit 0"; });
  ASSERT_TRUE(loop_.Run().ok());
  EXPECT_EQ(step_->restarts(), 1);
}

TEST_F(AgentsStepTest, AUsageErrorIsNot) {
  Make({"exit 64"});
  ASSERT_TRUE(loop_.Run().ok());
  EXPECT_EQ(step_->restarts(), 0);
}

TEST_F(AgentsStepTest, CloseWaitsThenTermsThenKills) {
  Make({"trap '' TERM; while :; do sleep 0.1; done", "exec sleep 60", "sleep 0.1"});
  wanted_ = 99;
  step_->Close(std::chrono::milliseconds(200), std::chrono::milliseconds(200));
  ASSERT_TRUE(loop_.Run().ok());
  EXPECT_TRUE(closed_);
  EXPECT_TRUE(step_->killed());
  EXPECT_FALSE(step_->AnyLeft());
  EXPECT_TRUE(ended_.empty());
}

TEST_F(AgentsStepTest, ClosingWhatHasEndedIsToldToo) {
  Make({"exit 0"});
  ASSERT_TRUE(loop_.Run().ok());
  step_->Close(std::chrono::seconds(5), std::chrono::seconds(5));
  ASSERT_TRUE(loop_.Run().ok());
  EXPECT_TRUE(closed_);
  EXPECT_FALSE(step_->killed());
}

TEST_F(AgentsStepTest, OneThatIsAddedIsNotRepeatedAndNotTheLastWhileAnotherComesBack) {
  Make({"kill -9 $$"});
  // The first has died and waits for its next start when the added one ends.
  bool left = false;
  loop_.After(std::chrono::milliseconds(100), [&] {
    StepProcess added;
    added.what = "the srun of agents on n4";
    added.request.argv = {"/bin/sh", "-c", "kill -9 $$"};
    ASSERT_TRUE(step_->Add(std::move(added)).ok());
    loop_.After(std::chrono::milliseconds(200), [&] {
      left = step_->AnyLeft();
      loop_.Stop();
    });
  });
  wanted_ = 9;
  ASSERT_TRUE(loop_.Run().ok());
  EXPECT_EQ(ended_,
            std::vector<std::string>{"the srun of agents on n4 ended with signal 9 (Killed)"});
  EXPECT_TRUE(left);
  step_->Close(Duration::zero(), Duration::zero());
  ASSERT_TRUE(loop_.Run().ok());
  EXPECT_TRUE(closed_);
  EXPECT_EQ(step_->Add({}).code(), StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace muster::host
