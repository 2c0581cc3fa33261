// Training through faults, with the same bits at the end.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <cstdio>
#include <thread>

#include "common/random.h"
#include "tests/integration/trainer/mini_world.h"

namespace muster::test {
namespace {

using namespace std::chrono_literals;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Not;

// Generous: the machine may run other tests, and a sanitizer makes every step some ten times
// slower.
constexpr Duration kPatience = 120s;
constexpr int kSteps = 30;

class TrainerFaults : public ::testing::Test {
 protected:
  std::vector<std::string> Arguments(const std::string& checkpoints) {
    return {"--data",
            corpus_,
            "--steps",
            std::to_string(kSteps),
            "--batch",
            "8",
            "--checkpoint-every",
            "10",
            "--seed",
            "5",
            "--step-time-min",
            "15",
            "--print-digest",
            "--json-lines",
            (folder_.path() / (checkpoints + ".jsonl")),
            "--bucket-bytes",
            "65536",
            "--checkpoint-dir",
            (folder_.path() / checkpoints)};
  }

  std::string Undisturbed(int size, const std::string& name) {
    MiniWorld world(size, folder_, Arguments(name));
    world.Start();
    Finish(world);
    return world.Digest();
  }

  void Finish(MiniWorld& world) {
    const auto codes = world.WaitAll(kPatience);
    ASSERT_TRUE(codes.has_value()) << world.Output(0);
    for (int rank = 0; rank < world.size(); ++rank) {
      EXPECT_EQ((*codes)[static_cast<std::size_t>(rank)], 0) << world.Output(rank);
    }
    EXPECT_EQ(world.Digest().size(), 32U) << world.Output(0);
  }

  // Until the rank has finished that step.
  void WaitStep(MiniWorld& world, int rank, int step) {
    ASSERT_TRUE(world.agent().WaitProgress(static_cast<std::uint32_t>(rank), step, kPatience))
        << world.Output(rank);
  }

  // From the fault to the first step that any rank finishes in the round.
  void SayRecovery(MiniWorld& world, TimePoint fault, std::uint32_t round) {
    ASSERT_TRUE(world.agent().WaitFirstStep(round, kPatience)) << world.Output(0);
    const Duration time = world.agent().first_step(round) - fault;
    std::printf("%d ranks: %.1f ms from SIGKILL to the next round's first step\n", world.size(),
                std::chrono::duration<double, std::milli>(time).count());
  }

  TestFolder folder_;
  const std::string corpus_ = folder_.Corpus();
};

#ifdef MUSTER_STANDIN_DIR
// The stand-in adds in the Gloo group's order: one digest for both backends.
TEST_F(TrainerFaults, TheNcclBackendGoesOnAfterAKillWithTheGlooBackendsBits) {
  const std::string expected = Undisturbed(3, "calm");
  auto arguments = Arguments("disturbed");
  arguments.insert(arguments.end(), {"--backend", "nccl", "--nccl-library", MUSTER_STANDIN_DIR});
  {
    MiniWorld world(3, folder_, arguments);
    world.Start();
    WaitStep(world, 1, 7);
    const pid_t survivor = world.pid(2);
    const TimePoint fault = SteadyNow();
    SayRecovery(world, fault, world.KillAndReform(1));
    WaitStep(world, 2, 14);
    world.KillAndReform(0);
    EXPECT_EQ(world.pid(2), survivor);
    Finish(world);
    EXPECT_EQ(world.Digest(), expected) << world.Output(0);
  }
  arguments = Arguments("nccl-calm");
  arguments.insert(arguments.end(), {"--backend", "nccl", "--nccl-library", MUSTER_STANDIN_DIR});
  MiniWorld calm(3, folder_, arguments);
  calm.Start();
  Finish(calm);
  EXPECT_EQ(calm.Digest(), expected);
}

TEST_F(TrainerFaults, AFrozenRankHoldsNobodyOnTheNcclBackendEither) {
  auto arguments = Arguments("frozen");
  arguments.insert(arguments.end(), {"--backend", "nccl", "--nccl-library", MUSTER_STANDIN_DIR});
  MiniWorld world(3, folder_, arguments);
  world.Start();
  WaitStep(world, 2, 5);
  world.Signal(2, SIGSTOP);
  std::this_thread::sleep_for(200ms);
  const TimePoint start = SteadyNow();
  world.agent().EndRound("hang: rank 2 makes no progress");
  ASSERT_TRUE(world.agent().WaitQuiesced({0, 1}, 30s));
  EXPECT_LT(SteadyNow() - start, 10s);
  world.KillAndReform(2, "hang");
  Finish(world);
}
#endif

class KilledRank : public TrainerFaults,
                   public ::testing::WithParamInterface<std::pair<int, int>> {};

TEST_P(KilledRank, TheOthersStayAndTheBitsAreTheSame) {
  const auto [size, killed] = GetParam();
  const std::string expected = Undisturbed(size, "calm");
  MiniWorld world(size, folder_, Arguments("disturbed"));
  world.Start();
  WaitStep(world, killed, 7);
  std::vector<pid_t> pids;
  for (int rank = 0; rank < size; ++rank) pids.push_back(world.pid(rank));
  const TimePoint fault = SteadyNow();
  const std::uint32_t round = world.KillAndReform(killed);
  SayRecovery(world, fault, round);
  for (int rank = 0; rank < size; ++rank) {
    if (rank == killed) continue;
    EXPECT_EQ(world.pid(rank), pids[static_cast<std::size_t>(rank)]);
  }
  Finish(world);
  EXPECT_EQ(world.Digest(), expected);
  // At most the step in flight was lost, and nobody began anew.
  EXPECT_THAT(ReadText(folder_.path() / "disturbed.jsonl"), HasSubstr("\"repeated\":0"));
}
INSTANTIATE_TEST_SUITE_P(Worlds, KilledRank,
                         ::testing::Values(std::pair(2, 1), std::pair(4, 2), std::pair(4, 0)));

TEST_F(TrainerFaults, ManyFaultsAtRandomTimesChangeNoBit) {
  const std::string expected = Undisturbed(3, "calm");
  MiniWorld world(3, folder_, Arguments("disturbed"));
  world.Start();
  Random random(11);
  for (int fault = 0; fault < 5; ++fault) {
    const auto rank = static_cast<int>(random.Below(3));
    WaitStep(world, rank, 3 + fault * 4);
    std::this_thread::sleep_for(std::chrono::microseconds(random.Below(20000)));
    world.KillAndReform(rank);
  }
  Finish(world);
  EXPECT_EQ(world.Digest(), expected);
}

TEST_F(TrainerFaults, ARankKilledWhileTheRoundFormsIsReplacedAgain) {
  const std::string expected = Undisturbed(3, "calm");
  MiniWorld world(3, folder_, Arguments("disturbed"));
  world.Start();
  WaitStep(world, 0, 5);
  world.KillAndReform(1);  // the new process is loading now
  world.KillAndReform(1);
  world.KillAndReform(2);
  Finish(world);
  EXPECT_EQ(world.Digest(), expected);
}

TEST_F(TrainerFaults, AfterTheDeathOfAllTheCheckpointGivesTheSameBits) {
  const std::string expected = Undisturbed(2, "calm");
  {
    MiniWorld world(2, folder_, Arguments("disturbed"));
    world.Start();
    WaitStep(world, 0, 24);
    world.KillAll();
  }
  MiniWorld world(2, folder_, Arguments("disturbed"));
  world.Start();
  Finish(world);
  EXPECT_EQ(world.Digest(), expected);
  EXPECT_THAT(world.Output(0), HasSubstr("step-000000000020, at step 20"));
}

TEST_F(TrainerFaults, AFrozenRankHoldsNobodyWhenTheRoundEnds) {
  const std::string expected = Undisturbed(4, "calm");
  MiniWorld world(4, folder_, Arguments("disturbed"));
  world.Start();
  WaitStep(world, 3, 6);
  world.Signal(3, SIGSTOP);
  std::this_thread::sleep_for(200ms);
  const TimePoint start = SteadyNow();
  world.agent().EndRound("hang: rank 3 makes no progress");
  ASSERT_TRUE(world.agent().WaitQuiesced({0, 1, 2}, 20s));
  const Duration freed = SteadyNow() - start;
  std::printf("freed from a frozen rank in %.1f ms\n",
              std::chrono::duration<double, std::milli>(freed).count());
  EXPECT_LT(freed, 10s);
  world.KillAndReform(3, "hang");
  Finish(world);
  EXPECT_EQ(world.Digest(), expected);
}

TEST_F(TrainerFaults, AKilledLastRankLosesNothing) {
  const std::string expected = Undisturbed(2, "calm");
  MiniWorld world(2, folder_, Arguments("disturbed"));
  world.Start();
  WaitStep(world, 0, kSteps - 1);
  world.KillAndReform(1);
  Finish(world);
  EXPECT_EQ(world.Digest(), expected);
}

TEST_F(TrainerFaults, ADeadAgentEndsItsWorkers) {
  MiniWorld world(2, folder_, Arguments("orphans"));
  world.Start();
  WaitStep(world, 0, 3);
  world.agent().CloseAll();
  const auto codes = world.WaitAll(kPatience);
  ASSERT_TRUE(codes.has_value());
  EXPECT_THAT(*codes, Each(Not(0)));
  EXPECT_THAT(world.Output(0), HasSubstr("agent"));
}

TEST_F(TrainerFaults, RanksWithOtherOptionsAreRefused) {
  MiniWorld world(2, folder_, Arguments("mixed"));
  world.AddArguments(1, {"--learning-rate", "0.5"});
  world.Start();
  const auto codes = world.WaitAll(kPatience);
  ASSERT_TRUE(codes.has_value()) << world.Output(0);
  EXPECT_THAT(*codes, Each(1));
  EXPECT_THAT(world.Output(0), HasSubstr("rank 1 was started with other options"));
}

}  // namespace
}  // namespace muster::test
