#include "launcher/host/srun_host.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launcher/config/command_line.h"

namespace muster::host {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// What spank_plugin/srun_side.cc passes.
const std::vector<std::string> kArguments = {"--from-srun", "--ready-fd=3",   "--job=12",
                                             "--step=4",    "--step-nodes=2", "--step-tasks=6",
                                             "--name=exp1", "--lease=2s"};

TEST(SrunHost, ReadsWhatThePluginPasses) {
  const auto arguments = ParseSrunArguments(kArguments);
  ASSERT_TRUE(arguments.ok()) << arguments.status().ToString();
  EXPECT_EQ(arguments->ready_descriptor, 3);
  EXPECT_EQ(arguments->job, 12U);
  EXPECT_EQ(arguments->step, 4U);
  EXPECT_EQ(arguments->step_nodes, 2U);
  EXPECT_EQ(arguments->step_tasks, 6U);
  EXPECT_THAT(arguments->run_options, ElementsAre("--name=exp1", "--lease=2s"));
}

TEST(SrunHost, RefusesHandsAndNonsense) {
  EXPECT_THAT(ParseSrunArguments({}).status().message(), HasSubstr("not by hand"));
  for (std::size_t i = 0; i < 6; ++i) {
    std::vector<std::string> without = kArguments;
    without.erase(without.begin() + static_cast<std::ptrdiff_t>(i));
    EXPECT_FALSE(ParseSrunArguments(without).ok()) << kArguments[i];
  }
  std::vector<std::string> wrong = kArguments;
  wrong[2] = "--job=x";
  EXPECT_THAT(ParseSrunArguments(wrong).status().message(), HasSubstr("--job"));
  wrong[2] = "--job";
  EXPECT_FALSE(ParseSrunArguments(wrong).ok());
}

config::RunOptions Options(const std::vector<std::string>& words) {
  auto line = config::ParseCommandLine(config::kRun, words, config::Settings());
  EXPECT_TRUE(line.ok());
  return config::ToRunOptions(line->settings);
}

TEST(SrunHost, AllTasksOfTheStepAreNeeded) {
  const auto arguments = ParseSrunArguments(kArguments);
  const auto plan = PlanOfStep(*arguments, Options({"--lease=2s"}));
  ASSERT_TRUE(plan.ok()) << plan.status().ToString();
  EXPECT_TRUE(plan->nodes.empty()) << "known by hellos alone";
  EXPECT_EQ(plan->min_nodes, 2U);
  EXPECT_EQ(plan->max_nodes, 2U);
  EXPECT_EQ(plan->workers_per_node, 1U);
  EXPECT_FALSE(plan->can_requeue);
  EXPECT_EQ(plan->beat, std::chrono::milliseconds(400));
  protocol::Config config = ToConfig(*plan, Options({"--lease=2s"}));
  config.run_id = "x";
  EXPECT_TRUE(protocol::Validate(config).ok()) << protocol::Validate(config).ToString();
}

TEST(SrunHost, OptionsThatCannotBeAreNamed) {
  const auto arguments = ParseSrunArguments(kArguments);
  for (const char* option : {"--nodes=2", "--spares=1", "--workers-per-node=2", "--local"}) {
    const auto plan = PlanOfStep(*arguments, Options({option}));
    ASSERT_FALSE(plan.ok()) << option;
    EXPECT_THAT(plan.status().message(), HasSubstr("--muster cannot have"));
  }
  SrunArguments fewer = *arguments;
  fewer.step_tasks = 1;
  EXPECT_THAT(PlanOfStep(fewer, Options({})).status().message(), HasSubstr("1 tasks on 2 nodes"));
}

TEST(SrunHost, TheAnswerIsLinesAndAnEmptyOne) {
  agent::Options options;
  options.run_id = "r";
  options.certificate = "-----BEGIN\nlines\n";
  const std::string answer = ReadyAnswer(options, "secret");
  EXPECT_THAT(answer, HasSubstr("MUSTER_JOIN_SECRET=secret\n"));
  EXPECT_TRUE(answer.ends_with("\n\n"));
  EXPECT_EQ(answer.find("\n\n"), answer.size() - 2) << "a certificate's lines do not end it early";
}

}  // namespace
}  // namespace muster::host
