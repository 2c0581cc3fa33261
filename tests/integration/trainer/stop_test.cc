// Leaving a training on purpose, and what it is told at the start.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <cstdlib>
#include <fstream>

#include "tests/integration/trainer/mini_world.h"

namespace muster::test {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;

constexpr Duration kPatience = 120s;

class TrainerStop : public ::testing::Test {
 protected:
  std::vector<std::string> Arguments(const std::string& checkpoints, int steps) {
    return {"--data",
            corpus_,
            "--steps",
            std::to_string(steps),
            "--batch",
            "6",
            "--checkpoint-every",
            "0",
            "--step-time-min",
            "10",
            "--checkpoint-dir",
            folder_.path() / checkpoints};
  }
  std::string Digest(const std::string& checkpoints, int steps) {
    MiniWorld world(2, folder_, Arguments(checkpoints, steps));
    world.Start();
    const auto codes = world.WaitAll(kPatience);
    EXPECT_TRUE(codes && *codes == std::vector<int>(2, 0)) << world.Output(0);
    return world.Digest();
  }

  TestFolder folder_;
  const std::string corpus_ = folder_.Corpus();
};

TEST_F(TrainerStop, AStopOrderEndsAllRanksAtOneStepAndNothingIsLost) {
  const std::string expected = Digest("calm", 20);
  {
    MiniWorld world(2, folder_, Arguments("stopped", 20));
    world.Start();
    ASSERT_TRUE(world.agent().WaitProgress(0, 4, kPatience)) << world.Output(0);
    world.agent().SendStopAt(9, "time limit");
    const auto codes = world.WaitAll(kPatience);
    ASSERT_TRUE(codes.has_value()) << world.Output(0);
    EXPECT_THAT(*codes, Each(0)) << world.Output(0);
    EXPECT_THAT(world.Output(0), HasSubstr("stopped after step 9 of 20: time limit"));
    EXPECT_EQ(world.agent().last_step(0), 9);
    EXPECT_EQ(world.agent().last_step(1), 9);
    EXPECT_TRUE(world.agent().requests().empty()) << "who ordered the stop knows of it";
  }
  EXPECT_EQ(Digest("stopped", 20), expected);
}

TEST_F(TrainerStop, ASignalToOneRankStopsAll) {
  MiniWorld world(3, folder_, Arguments("signalled", 5000));
  world.Start();
  ASSERT_TRUE(world.agent().WaitProgress(2, 4, kPatience)) << world.Output(0);
  world.Signal(2, SIGUSR1);
  const auto codes = world.WaitAll(kPatience);
  ASSERT_TRUE(codes.has_value()) << world.Output(0);
  EXPECT_THAT(*codes, Each(0)) << world.Output(0);
  EXPECT_EQ(world.agent().last_step(0), world.agent().last_step(2));
  EXPECT_THAT(world.Output(0),
              HasSubstr("checkpoint of step " + std::to_string(world.agent().last_step(0))));
  // Else a run whose ranks all ended with 0 would never be resumed.
  ASSERT_EQ(world.agent().requests().size(), 1U);
  EXPECT_EQ(world.agent().requests()[0].first, local::RequestKind::kStop);
}

TEST_F(TrainerStop, AStopThatComesTooLateIsDone) {
  MiniWorld world(1, folder_, Arguments("late", 12));
  world.Start();
  ASSERT_TRUE(world.agent().WaitProgress(0, 4, kPatience)) << world.Output(0);
  world.agent().SendStopAt(12, "time limit");
  const auto codes = world.WaitAll(kPatience);
  ASSERT_TRUE(codes.has_value());
  EXPECT_THAT(*codes, Each(0));
  ASSERT_EQ(world.agent().requests().size(), 1U);
  EXPECT_EQ(world.agent().requests()[0].first, local::RequestKind::kDone);
}

TEST_F(TrainerStop, AFinishedTrainingIsNotRepeated) {
  const std::string digest = Digest("twice", 8);
  MiniWorld world(2, folder_, Arguments("twice", 8));
  world.Start();
  const auto codes = world.WaitAll(kPatience);
  ASSERT_TRUE(codes.has_value());
  EXPECT_EQ(world.Digest(), digest);
  EXPECT_THAT(world.Output(0), HasSubstr("at step 8 of 8"));
}

TEST_F(TrainerStop, AnotherModelsCheckpointIsRefusedByName) {
  Digest("model", 3);
  auto arguments = Arguments("model", 3);
  arguments.insert(arguments.end(), {"--model", "small"});
  MiniWorld world(2, folder_, arguments);
  world.Start();
  const auto codes = world.WaitAll(kPatience);
  ASSERT_TRUE(codes.has_value());
  EXPECT_THAT(*codes, Each(1));
  EXPECT_THAT(world.Output(0), HasSubstr("with other tensors than --model small has"));
}

TEST_F(TrainerStop, ADamagedCheckpointIsPassedOver) {
  auto arguments = Arguments("damaged", 12);
  arguments.insert(arguments.end(), {"--checkpoint-every", "4"});
  const auto run = [&](std::string* output) {
    MiniWorld world(2, folder_, arguments);
    world.Start();
    const auto codes = world.WaitAll(kPatience);
    EXPECT_TRUE(codes && *codes == std::vector<int>(2, 0)) << world.Output(0);
    *output = world.Output(0);
    return world.Digest();
  };
  std::string output;
  const std::string digest = run(&output);
  std::filesystem::path path;
  for (const auto& file :
       std::filesystem::directory_iterator(folder_.path() / "damaged" / "step-000000000012")) {
    if (file.path().filename() != "manifest.json") path = file.path();
  }
  std::fstream shard(path, std::ios::in | std::ios::out | std::ios::binary);
  ASSERT_TRUE(shard.good());
  shard.seekp(1000);
  shard.write("damage", 6);
  shard.close();
  EXPECT_EQ(run(&output), digest);
  EXPECT_THAT(output, AllOf(HasSubstr("is passed over"), HasSubstr("at step 8 of 12")));
}

TEST_F(TrainerStop, AConfigurationsUnknownKeysAreAllNamed) {
  const auto config = folder_.path() / "config.json";
  std::ofstream(config) << R"({"train_batch_size": 4, "optimizer": {"type": "Adam",
    "params": {"lr": 0.01, "learn": 1}}, "fp16": {"enabled": true}})";
  auto arguments = Arguments("config", 3);
  arguments.insert(arguments.end(), {"--config", config});
  MiniWorld world(1, folder_, arguments);
  world.Start();
  const auto codes = world.WaitAll(kPatience);
  ASSERT_TRUE(codes.has_value());
  EXPECT_THAT(*codes, Each(64));
  EXPECT_THAT(world.Output(0), AllOf(HasSubstr("optimizer.type cannot be \"Adam\""),
                                     HasSubstr("optimizer.params.learn is unknown"),
                                     HasSubstr("fp16.enabled is unknown")));
}

}  // namespace
}  // namespace muster::test
