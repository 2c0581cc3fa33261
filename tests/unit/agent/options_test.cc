#include "launcher/agent/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launcher/agent/place.h"

namespace muster::agent {
namespace {

Options Full() {
  Options options;
  options.run_id = "cluster/7/train";
  options.run_name = "train";
  options.version = "0.1.0";
  options.attempt = 2;
  options.endpoints = {"10.0.0.1:4711", "[fd00::1]:4711"};
  options.certificate = "-----BEGIN\n\"x\"\n";
  options.program = {"python", "train.py", "--text", "a b\t\"c\"\n\u00e4"};
  options.workers_per_agent = 8;
  options.state_dir = "/s";
  options.checkpoint_dir = "/c";
  options.local_dir = "/l";
  options.log_dir = "/g";
  options.working_dir = "/w";
  options.set_environment = {{"A", "1"}, {"B", ""}};
  options.keep_environment = {"MASTER_PORT"};
  options.local = true;
  options.beat = std::chrono::milliseconds(100);
  options.lease = std::chrono::milliseconds(500);
  options.stop_grace = std::chrono::seconds(3);
  options.show_all_up_to = 3;
  return options;
}

TEST(AgentOptions, ComeBackAsTheyWent) {
  const Options in = Full();
  const Result<Options> out = OptionsFromJson(ToJson(in));
  ASSERT_TRUE(out.ok()) << out.status().message();
  EXPECT_EQ(ToJson(*out), ToJson(in));
  EXPECT_EQ(out->program, in.program);
  EXPECT_EQ(out->set_environment, in.set_environment);
  EXPECT_EQ(out->stop_grace, in.stop_grace);
  EXPECT_TRUE(out->local);
}

TEST(AgentOptions, WhatIsMissingHasItsDefault) {
  const Result<Options> out = OptionsFromJson(R"({"run_id":"r","endpoints":["1.2.3.4:5"]})");
  ASSERT_TRUE(out.ok());
  EXPECT_EQ(out->workers_per_agent, 1U);
  EXPECT_EQ(out->show_all_up_to, 8U);
}

TEST(AgentOptions, WrongOnesAreRefusedByName) {
  const auto refuse = [](const std::string& json) {
    const Result<Options> out = OptionsFromJson(json);
    return out.ok() ? std::string("accepted") : out.status().message();
  };
  const std::string head = R"({"run_id":"r","endpoints":["1.2.3.4:5"],)";
  EXPECT_THAT(refuse("x"), testing::HasSubstr("JSON"));
  EXPECT_THAT(refuse("[]"), testing::HasSubstr("JSON"));
  EXPECT_THAT(refuse("{}"), testing::HasSubstr("run_id"));
  EXPECT_THAT(refuse(R"({"run_id":"r"})"), testing::HasSubstr("endpoint"));
  EXPECT_THAT(refuse(head + R"("attempt":-1})"), testing::HasSubstr("attempt"));
  EXPECT_THAT(refuse(head + R"("attempt":4294967296})"), testing::HasSubstr("attempt"));
  EXPECT_THAT(refuse(head + R"("program":"ls"})"), testing::HasSubstr("program"));
  EXPECT_THAT(refuse(head + R"("program":[1]})"), testing::HasSubstr("program"));
  EXPECT_THAT(refuse(head + R"("beat_ns":0})"), testing::HasSubstr("beat"));
  EXPECT_THAT(refuse(head + R"("beat_ns":18446744073709551615})"), testing::HasSubstr("beat"));
  EXPECT_THAT(refuse(head + R"("lease_ns":5})"), testing::HasSubstr("lease"));
  EXPECT_THAT(refuse(head + R"("workers_per_agent":0})"), testing::HasSubstr("workers"));
  EXPECT_THAT(refuse(head + R"("local":"yes"})"), testing::HasSubstr("local"));
}

TEST(Place, FromSlurm) {
  const Environment env = {{"SLURM_JOB_ID", "7"},
                           {"SLURMD_NODENAME", "n3"},
                           {"SLURM_STEP_ID", "2"},
                           {"SLURM_PROCID", "5"},
                           {"SLURM_NODEID", "2"},
                           {"SLURM_TASKS_PER_NODE", "9(x9)"},
                           {"SLURM_STEP_TASKS_PER_NODE", "2(x2),4"}};
  const Result<Place> place = PlaceFromEnvironment(env, {}, "alias");
  ASSERT_TRUE(place.ok());
  EXPECT_EQ(place->node, "n3");
  EXPECT_EQ(place->step_id, 2U);
  EXPECT_EQ(place->task_id, 5U);
  EXPECT_EQ(place->node_index, 2U);
  EXPECT_EQ(place->agents_on_node, 4U);
  EXPECT_TRUE(place->slurm);
}

TEST(Place, WhatIsNotUnderstoodIsRefused) {
  EXPECT_FALSE(PlaceFromEnvironment({{"SLURM_NODEID", "x"}}, {}, "h").ok());
  EXPECT_FALSE(PlaceFromEnvironment({{"SLURM_STEP_TASKS_PER_NODE", "2(x"}}, {}, "h").ok());
  EXPECT_FALSE(
      PlaceFromEnvironment({{"SLURM_STEP_TASKS_PER_NODE", "2"}, {"SLURM_NODEID", "1"}}, {}, "h")
          .ok());
}

TEST(Place, Local) {
  const Environment env = {
      {"MUSTER_LOCAL_NODE", "local3"}, {"SLURM_JOB_ID", "7"}, {"SLURM_NODEID", "9"}};
  const Result<Place> place = PlaceFromEnvironment(env, {}, "h");
  ASSERT_TRUE(place.ok());
  EXPECT_EQ(place->node, "local3");
  EXPECT_EQ(place->node_index, 3U);
  EXPECT_EQ(place->task_id, 3U);
  EXPECT_FALSE(place->slurm);
}

TEST(Place, WithoutAnything) {
  const Result<Place> place = PlaceFromEnvironment({}, {}, "box");
  ASSERT_TRUE(place.ok());
  EXPECT_EQ(place->node, "box");
  EXPECT_EQ(place->agents_on_node, 1U);
}

}  // namespace
}  // namespace muster::agent
