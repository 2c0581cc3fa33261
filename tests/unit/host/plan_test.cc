#include "launcher/host/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "launcher/config/command_line.h"

namespace muster::host {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

PlanInput JobOf(int nodes, const std::vector<std::string>& words = {}) {
  PlanInput input;
  auto line = config::ParseCommandLine(config::kRun, words, config::Settings());
  EXPECT_TRUE(line.ok()) << line.status().ToString();
  input.options = config::ToRunOptions(line->settings);
  input.program = {"train"};
  input.allocation.place = slurm::Place::kBatch;
  input.allocation.job.id = 12;
  for (int i = 1; i <= nodes; ++i) {
    input.allocation.nodes.push_back("n" + std::to_string(i));
    input.allocation.cpus_per_node.push_back(8);
    input.allocation.tasks_per_node.push_back(1);
  }
  input.allocation.node_name = "n1";
  return input;
}

Plan Made(const PlanInput& input) {
  Result<Plan> plan = MakePlan(input);
  EXPECT_TRUE(plan.ok()) << plan.status().ToString();
  return plan.ok() ? *plan : Plan();
}

std::string Refused(const PlanInput& input) {
  const Result<Plan> plan = MakePlan(input);
  EXPECT_FALSE(plan.ok());
  return plan.ok() ? "" : plan.status().message();
}

TEST(Plan, WithoutOptionsAllNodesAndNeverFewer) {
  const Plan plan = Made(JobOf(3));
  EXPECT_THAT(plan.nodes, ElementsAre("n1", "n2", "n3"));
  EXPECT_EQ(plan.min_nodes, 3U);
  EXPECT_EQ(plan.max_nodes, 3U);
  EXPECT_EQ(plan.spares, 0U);
  EXPECT_EQ(plan.workers_per_node, 1U);
  EXPECT_TRUE(plan.can_requeue);
}

TEST(Plan, NodesAndSparesTable) {
  struct Case {
    int job;
    std::vector<std::string> words;
    std::size_t agents;
    std::uint32_t min, max, spares;
  };
  const std::vector<Case> cases = {
      {5, {"--spares", "1"}, 5, 4, 4, 1},
      {5, {"-N3", "--spares=2"}, 5, 3, 3, 2},
      {5, {"-N3"}, 3, 3, 3, 0},
      {4, {"-N2:4"}, 4, 2, 4, 0},
      {4, {"-N2:8"}, 4, 2, 4, 0},
      {4, {"-N2:3", "--spares=1"}, 4, 2, 3, 1},
      {4, {"-N2:4", "--spares=2"}, 4, 2, 4, 0},
      {1, {}, 1, 1, 1, 0},
  };
  for (const Case& expected : cases) {
    const Plan plan = Made(JobOf(expected.job, expected.words));
    EXPECT_EQ(plan.nodes.size(), expected.agents);
    EXPECT_EQ(plan.min_nodes, expected.min);
    EXPECT_EQ(plan.max_nodes, expected.max);
    EXPECT_EQ(plan.spares, expected.spares);
    EXPECT_TRUE(protocol::Validate([&] {
                  protocol::Config config = ToConfig(plan, JobOf(1, expected.words).options);
                  config.run_id = "x";
                  return config;
                }())
                    .ok());
  }
}

TEST(Plan, TooFewNodesNamesBothNumbersAndTheNodes) {
  EXPECT_THAT(Refused(JobOf(2, {"-N9"})),
              HasSubstr("--nodes 9 need 9 nodes, but the job has 2 (n[1-2]); ask for fewer"));
  EXPECT_THAT(Refused(JobOf(2, {"-N2", "--spares=1"})),
              HasSubstr("--nodes 2 and --spares 1 need 3 nodes, but the job has 2"));
  EXPECT_THAT(Refused(JobOf(2, {"--spares=2"})), HasSubstr("--spares 2 and one node"));
  EXPECT_THAT(Refused(JobOf(2, {"-N3:4"})), HasSubstr("--nodes 3:4 needs 3 nodes"));
}

TEST(Plan, OutsideOfAJobSaysWhatToDo) {
  PlanInput input = JobOf(0);
  input.allocation = {};
  const std::string message = Refused(input);
  EXPECT_THAT(message, HasSubstr("not in a Slurm job"));
  EXPECT_THAT(message, HasSubstr("--local"));
}

TEST(Plan, WithoutAProgramSaysWhereItGoes) {
  PlanInput input = JobOf(1);
  input.program.clear();
  EXPECT_THAT(Refused(input), HasSubstr("muster run [options] -- PROGRAM"));
}

TEST(Plan, StartedBySrunManyTimesIsAnError) {
  PlanInput input = JobOf(2);
  input.allocation.place = slurm::Place::kStep;
  input.allocation.step = slurm::Step{};
  input.allocation.step->tasks = 4;
  EXPECT_THAT(Refused(input), HasSubstr("started by srun as 4 tasks"));
  input.allocation.step->tasks = 1;
  EXPECT_EQ(Made(input).nodes.size(), 2U);
}

TEST(Plan, WorkersComeFromOptionTasksGpusInThisOrder) {
  PlanInput input = JobOf(2);
  input.allocation.gpus_on_node = 4;
  EXPECT_EQ(Made(input).workers_per_node, 4U);
  input.allocation.tasks_per_node = {2, 2};
  EXPECT_EQ(Made(input).workers_per_node, 4U) << "Slurm fills tasks in by itself";
  input.allocation.tasks_requested = true;
  EXPECT_EQ(Made(input).workers_per_node, 2U);
  input.options.workers_per_node = 8;
  EXPECT_EQ(Made(input).workers_per_node, 8U);
  EXPECT_THAT(Made(input).warnings, ElementsAre(HasSubstr("8 workers share 4 GPUs")));
}

TEST(Plan, NodesWithDifferentTaskCountsAreNamed) {
  PlanInput input = JobOf(3);
  input.allocation.tasks_requested = true;
  input.allocation.tasks_per_node = {3, 3, 1};
  EXPECT_THAT(Refused(input), HasSubstr("\"3(x2),1\""));
  input.options.workers_per_node = 1;
  EXPECT_EQ(Made(input).workers_per_node, 1U);
}

TEST(Plan, FewerCpusThanWorkersIsAWarningWithTheNode) {
  PlanInput input = JobOf(2, {"--workers-per-node=4"});
  input.allocation.cpus_per_node = {8, 2};
  EXPECT_THAT(Made(input).warnings, ElementsAre(HasSubstr("n2 gives the job 2 CPUs")));
}

TEST(Plan, LocalNeedsNoJob) {
  PlanInput input = JobOf(0, {"--local", "2x3"});
  input.allocation = {};
  const Plan plan = Made(input);
  EXPECT_TRUE(plan.local);
  EXPECT_THAT(plan.nodes, ElementsAre("local0", "local1"));
  EXPECT_EQ(plan.workers_per_node, 3U);
  EXPECT_FALSE(plan.can_requeue);
  input.options.workers_per_node = 2;
  EXPECT_THAT(Refused(input), HasSubstr("--local asks for 3 workers a node"));
  input.options.local = config::LocalShape{};
  EXPECT_EQ(Made(input).workers_per_node, 2U);
}

TEST(Plan, NodesOfOtherRunsAreLeftAlone) {
  PlanInput input = JobOf(4, {"-N2"});
  input.claims = {{"left", {"n1", "n3"}}};
  EXPECT_THAT(Made(input).nodes, ElementsAre("n2", "n4"));
  input.options.nodes = config::NodeRange{3, 3};
  const std::string message = Refused(input);
  EXPECT_THAT(message, HasSubstr("run left holds n[1,3]"));
  EXPECT_THAT(message, HasSubstr("2 are free"));
}

TEST(Plan, ALeaseTooShortIsNamedWithItsValue) {
  EXPECT_THAT(Refused(JobOf(1, {"--lease=0s"})), HasSubstr("lease"));
  EXPECT_THAT(Refused(JobOf(1, {"--lease=10ms"})), HasSubstr("--lease 10ms"));
  EXPECT_THAT(Refused(JobOf(1, {"--form-timeout=0s"})), HasSubstr("--form-timeout"));
  const Plan plan = Made(JobOf(1, {"--lease=2s"}));
  EXPECT_EQ(plan.beat, std::chrono::milliseconds(400));
  EXPECT_EQ(Made(JobOf(1, {"--lease=60s"})).beat, std::chrono::seconds(1));
}

TEST(Plan, RequeueOnlyForABatchJobThatMay) {
  EXPECT_FALSE(Made(JobOf(1, {"--no-requeue"})).can_requeue);
  PlanInput input = JobOf(1);
  input.allocation.place = slurm::Place::kShell;
  EXPECT_FALSE(Made(input).can_requeue);
}

TEST(Plan, FactsOfTheUserAreNamedAndSettingsKept) {
  PlanInput input = JobOf(1, {"--keep-env", "MASTER_PORT", "--env", "A=1", "--env", "B"});
  input.environment = {{"MASTER_ADDR", "x"}, {"MASTER_PORT", "29500"}, {"NCCL_DEBUG", "INFO"}};
  const Plan plan = Made(input);
  EXPECT_THAT(plan.warnings, ElementsAre(HasSubstr("MASTER_ADDR=x in your environment is replaced"),
                                         HasSubstr("--env B passes nothing on")));
  const std::string text = PlanText(plan);
  EXPECT_THAT(text, HasSubstr("NCCL_DEBUG"));
  EXPECT_THAT(text, HasSubstr("29500"));
  EXPECT_THAT(PlanJson(plan), HasSubstr("\"workers_per_node\": 1"));
}

}  // namespace
}  // namespace muster::host
