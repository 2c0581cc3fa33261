#include "launcher/host/launch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "launcher/config/command_line.h"

namespace muster::host {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class LaunchTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = (std::filesystem::temp_directory_path() / "muster-launch-XXXXXX").string();
    ASSERT_NE(mkdtemp(folder_.data()), nullptr);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  LaunchInput Input(const std::vector<std::string>& words, std::uint32_t restart = 0) const {
    LaunchInput input;
    auto line = config::ParseCommandLine(config::kRun, words, config::Settings());
    EXPECT_TRUE(line.ok()) << line.status().ToString();
    input.options = config::ToRunOptions(line->settings);
    input.program = line->program;
    input.allocation.place = slurm::Place::kBatch;
    input.allocation.job.id = 12;
    input.allocation.cluster = "c";
    input.allocation.submit_dir = folder_;
    input.allocation.restart_count = restart;
    input.allocation.nodes = {"n1", "n2", "n3", "n4"};
    input.allocation.node_name = "n1";
    input.environment = {{"TMPDIR", folder_ + "/tmp"}, {"XDG_STATE_HOME", folder_ + "/home"}};
    input.folder = folder_;
    input.host_name = "n1";
    return input;
  }

  std::string folder_;
};

TEST_F(LaunchTest, PreparesFoldersAndKeepsTheRunsId) {
  const auto launch = Prepare(Input({"--", "train", "x"}));
  ASSERT_TRUE(launch.ok()) << launch.status().ToString();
  EXPECT_EQ(launch->run_name, "run1");
  EXPECT_EQ(launch->run_id, "c/12/run1");
  EXPECT_EQ(launch->attempt, 0U);
  EXPECT_EQ(launch->files.folder, folder_ + "/.muster/12/run1");
  EXPECT_TRUE(std::filesystem::is_directory(launch->log_dir));
  EXPECT_TRUE(std::filesystem::is_directory(launch->checkpoint_dir));
  EXPECT_TRUE(launch->journal_dir.starts_with(folder_ + "/tmp/muster-host-"));
  EXPECT_TRUE(std::filesystem::exists(folder_ + "/home/muster/jobs/12"));
  MarkEnded(*launch);

  const auto next = Prepare(Input({"--", "train", "x"}, 1));
  ASSERT_TRUE(next.ok()) << next.status().ToString();
  EXPECT_EQ(next->run_name, "run1");
  EXPECT_EQ(next->attempt, 1U);
  EXPECT_NE(next->journal_dir, launch->journal_dir);
}

TEST_F(LaunchTest, ANamedRunGoesOnInAnotherJobUnderItsOldId) {
  LaunchInput input = Input({"--name", "long", "--state-dir", "s", "train"});
  auto launch = Prepare(input);
  ASSERT_TRUE(launch.ok()) << launch.status().ToString();
  MarkEnded(*launch);
  input.allocation.job.id = 13;
  auto next = Prepare(input);
  ASSERT_TRUE(next.ok()) << next.status().ToString();
  EXPECT_EQ(next->run_id, "c/12/long");
  EXPECT_EQ(next->attempt, 1U);
  EXPECT_EQ(next->files.folder, folder_ + "/s/long");
}

TEST_F(LaunchTest, WhatSucceededIsNotRepeatedUnlessAsked) {
  auto launch = Prepare(Input({"train"}));
  ASSERT_TRUE(launch.ok());
  protocol::Verdict verdict;
  verdict.outcome = protocol::Outcome::kSucceeded;
  ASSERT_TRUE(WriteVerdict(launch->files, launch->attempt, verdict).ok());
  MarkEnded(*launch);
  auto again = Prepare(Input({"train"}, 1));
  ASSERT_TRUE(again.ok());
  EXPECT_TRUE(again->already_done);
  EXPECT_FALSE(Prepare(Input({"other"}, 1))->already_done);
  auto asked = Prepare(Input({"--again", "train"}, 2));
  ASSERT_TRUE(asked.ok()) << asked.status().ToString();
  EXPECT_FALSE(asked->already_done);
  EXPECT_EQ(asked->run_name, "run1");
}

TEST_F(LaunchTest, AFailedOrStoppedRunIsRepeated) {
  auto launch = Prepare(Input({"train"}));
  ASSERT_TRUE(launch.ok());
  protocol::Verdict verdict;
  verdict.outcome = protocol::Outcome::kStopped;
  ASSERT_TRUE(WriteVerdict(launch->files, launch->attempt, verdict).ok());
  MarkEnded(*launch);
  auto again = Prepare(Input({"train"}, 1));
  ASSERT_TRUE(again.ok());
  EXPECT_FALSE(again->already_done);
  EXPECT_EQ(again->past->verdict.outcome, protocol::Outcome::kStopped);
}

TEST_F(LaunchTest, AContradictionTouchesNoFile) {
  EXPECT_FALSE(Prepare(Input({"-N9", "train"})).ok());
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/.muster"));
}

TEST_F(LaunchTest, TheEntryOfALivingRunHoldsItsNodesUntilItEnds) {
  const auto entries = [&] {
    auto opened = Register::Open(folder_ + "/.muster/12");
    EXPECT_TRUE(opened.ok());
    return opened->book().entries();
  };
  auto launch = Prepare(Input({"-N2", "--name=left", "train"}));
  ASSERT_TRUE(launch.ok());
  ASSERT_EQ(entries().size(), 1U);
  EXPECT_THAT(entries()[0].nodes, ElementsAre("n1", "n2"));
  EXPECT_FALSE(entries()[0].ended);
  EXPECT_EQ(entries()[0].pid, getpid());
  MarkEnded(*launch);
  EXPECT_TRUE(entries()[0].ended);
}

TEST_F(LaunchTest, OptionsReachTheAgents) {
  LaunchInput input =
      Input({"--env", "A=1", "--env", "B", "--env", "C", "--keep-env", "MASTER_ADDR",
             "--workers-per-node", "2", "--log-dir", "logs", "--stop-grace", "7s", "train", "x"});
  input.environment["B"] = "two";
  auto launch = Prepare(input);
  ASSERT_TRUE(launch.ok()) << launch.status().ToString();
  const agent::Options options = AgentOptions(input, *launch);
  EXPECT_THAT(options.program, ElementsAre("train", "x"));
  EXPECT_EQ(options.set_environment,
            (std::map<std::string, std::string>{{"A", "1"}, {"B", "two"}}));
  EXPECT_THAT(options.keep_environment, ElementsAre("MASTER_ADDR"));
  EXPECT_EQ(options.workers_per_agent, 2U);
  EXPECT_EQ(options.log_dir, folder_ + "/logs");
  EXPECT_EQ(options.stop_grace, std::chrono::seconds(7));
  EXPECT_FALSE(options.local);
}

TEST_F(LaunchTest, WhatWouldNotReachTheNodesUnchangedIsRefused) {
  EXPECT_TRUE(Prepare(Input({"--env", "A=\u00fc", "train", "z\u00fcrich", "a\nb", ""})).ok());
  for (const std::vector<std::string>& words : {std::vector<std::string>{"train", "a\xff"},
                                                {"--env", "A=\xff", "train"},
                                                {"--state-dir", "\xff", "train"},
                                                {"--local-dir", "/tmp/\xff", "train"}}) {
    const auto launch = Prepare(Input(words));
    ASSERT_FALSE(launch.ok());
    EXPECT_THAT(launch.status().message(), HasSubstr("\\xff\" is not UTF-8"));
  }
  LaunchInput unset = Input({"train"});
  unset.program = {"", "train"};
  EXPECT_THAT(Prepare(unset).status().message(), HasSubstr("empty word"));
}

TEST_F(LaunchTest, AStateFolderOfTwoLinesHasAnIdOfOne) {
  LaunchInput input = Input({"--local", "--state-dir", "a\nb", "train"});
  const auto launch = Prepare(input);
  ASSERT_TRUE(launch.ok()) << launch.status().ToString();
  EXPECT_EQ(launch->run_id, "n1/a_b/run1");
}

TEST_F(LaunchTest, AJournalFolderThatCannotBeIsNamedWithItsOption) {
  const auto launch = Prepare(Input({"--local-dir", "/proc/nothing", "train"}));
  ASSERT_FALSE(launch.ok());
  EXPECT_THAT(launch.status().message(), HasSubstr("/proc/nothing"));
  EXPECT_THAT(launch.status().message(), HasSubstr("--local-dir"));
}

}  // namespace
}  // namespace muster::host
