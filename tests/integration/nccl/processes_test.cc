// The NCCL group among real processes on the stand-in, with real signals.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <cstdio>

#include "tests/integration/nccl/process.h"
#include "tests/unit/session/fake_agent.h"

namespace muster::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;
using Clock = std::chrono::steady_clock;
using Variables = std::map<std::string, std::string>;

// Ranks in the order of their start, in the first round.
class Job {
 public:
  Job(int size, const std::vector<std::string>& arguments, const Variables& more = {})
      : agent_(static_cast<std::uint32_t>(size)) {
    Variables variables = more;
    variables["MUSTER_AGENT_SOCKET"] = agent_.socket_path();
    variables["LD_LIBRARY_PATH"] = MUSTER_STANDIN;
    variables.emplace("NCCL_SOCKET_IFNAME", "lo");
    std::vector<std::string> command = {MUSTER_NCCL_PEER};
    command.insert(command.end(), arguments.begin(), arguments.end());
    for (int rank = 0; rank < size; ++rank) {
      ranks_.emplace_back(command, variables);
      EXPECT_TRUE(agent_.WaitRegistered(static_cast<std::size_t>(rank) + 1, seconds(30)));
    }
    agent_.BeginRound("initial");
  }

  FakeAgent& agent() { return agent_; }
  Process& operator[](int rank) { return ranks_[static_cast<std::size_t>(rank)]; }
  std::vector<Process>& ranks() { return ranks_; }

 private:
  FakeAgent agent_;
  std::vector<Process> ranks_;
};

milliseconds Since(Clock::time_point begin) {
  return std::chrono::duration_cast<milliseconds>(Clock::now() - begin);
}

class Worlds : public ::testing::TestWithParam<int> {};

TEST_P(Worlds, AllReduceIsExactAndTheSameEverywhereAndAgain) {
  std::string hash;
  for (int run = 0; run < 2; ++run) {
    Job job(GetParam(), {"reduce"});
    for (Process& rank : job.ranks()) {
      EXPECT_EQ(rank.Wait(seconds(60)), 0) << rank.output();
      const auto line = rank.WaitForLine("hash ", seconds(1));
      const auto error = rank.WaitForLine("error ", seconds(1));
      ASSERT_TRUE(line && error) << rank.output();
      if (hash.empty()) hash = *line;
      EXPECT_EQ(*line, hash);
      EXPECT_LE(std::stod(*error), 1.0);
    }
  }
  EXPECT_FALSE(hash.empty());
}

INSTANTIATE_TEST_SUITE_P(Sizes, Worlds, ::testing::Values(2, 4));

TEST(Processes, KilledRankFreesTheOthersWithAReason) {
  Job job(4, {"loop"});
  for (int rank = 0; rank < 4; ++rank) {
    ASSERT_TRUE(job.agent().WaitProgress(static_cast<std::uint32_t>(rank), 3, seconds(60)));
  }
  const auto begin = Clock::now();
  job[2].Signal(SIGKILL);
  for (const int rank : {0, 1, 3}) {
    const auto line = job[rank].WaitForLine("failed ", seconds(10));
    ASSERT_TRUE(line) << job[rank].output();
    // One may hear of the killed rank by the one that has closed its connections because of it.
    EXPECT_THAT(*line, HasSubstr("Unavailable: NCCL communicator \"world\" of attempt 0 round 1"));
    EXPECT_THAT(*line, HasSubstr("rank " + std::to_string(rank) + " of 4"));
    EXPECT_THAT(*line, HasSubstr("ncclRemoteError"));
    EXPECT_EQ(job[rank].Wait(seconds(10)), 3) << job[rank].output();
  }
  std::printf("  all survivors were free and gone %ld ms after the kill\n", Since(begin).count());
  EXPECT_LT(Since(begin), seconds(5));
  EXPECT_EQ(job[2].Wait(seconds(5)), -SIGKILL);
}

TEST(Processes, AbortFreesRanksThatWaitForAStoppedOne) {
  Job job(3, {"loop"});
  for (int rank = 0; rank < 3; ++rank) {
    ASSERT_TRUE(job.agent().WaitProgress(static_cast<std::uint32_t>(rank), 3, seconds(60)));
  }
  job[1].Signal(SIGSTOP);
  std::this_thread::sleep_for(milliseconds(500));
  for (const int rank : {0, 2}) {
    EXPECT_FALSE(job[rank].Wait(milliseconds(0))) << "it should wait for the stopped one";
  }
  const auto begin = Clock::now();
  job.agent().EndRound("rank 1 is silent");
  for (const int rank : {0, 2}) {
    const auto line = job[rank].WaitForLine("failed ", seconds(10));
    ASSERT_TRUE(line) << job[rank].output();
    // Whoever goes first closes its connections, which the other may see before it hears itself.
    EXPECT_THAT(*line,
                ::testing::AnyOf(HasSubstr("rank 1 is silent"), HasSubstr("ncclRemoteError")));
    EXPECT_TRUE(job[rank].WaitForLine("destroyed", seconds(10))) << job[rank].output();
    EXPECT_EQ(job[rank].Wait(seconds(10)), 3);
  }
  std::printf("  both were free and gone %ld ms after the end of the round\n",
              Since(begin).count());
  EXPECT_LT(Since(begin), seconds(5));
  job[1].Signal(SIGCONT);
  EXPECT_EQ(job[1].Wait(seconds(30)), 3) << job[1].output();
}

TEST(Processes, FormingEndsAtItsDeadlineWhenARankHangsInIt) {
  const auto begin = Clock::now();
  Job job(3, {"loop"}, {{"MUSTER_STANDIN_INIT_HANG", "2"}, {"MUSTER_TEST_TIMEOUT_MS", "1500"}});
  int late = 0;
  for (Process& rank : job.ranks()) {
    EXPECT_EQ(rank.Wait(seconds(30)), 3) << rank.output();
    EXPECT_THAT(rank.output(), HasSubstr("forming among 3 ranks"));
    late += rank.output().find("DeadlineExceeded") != std::string::npos ? 1 : 0;
  }
  EXPECT_GE(late, 1);
  EXPECT_GE(Since(begin), milliseconds(1400));
}

TEST(Processes, DestroyEndsThoughTheLibraryHangs) {
  Job job(2, {"loop"},
          {{"MUSTER_STANDIN_HANG", "1:3"},
           {"MUSTER_STANDIN_REVOKE_FAILS", "1"},
           {"MUSTER_STANDIN_ABORT_HANGS", "1"}});
  for (int rank = 0; rank < 2; ++rank) {
    ASSERT_TRUE(job.agent().WaitProgress(static_cast<std::uint32_t>(rank), 1, seconds(60)));
  }
  const auto begin = Clock::now();
  job.agent().EndRound("the test says so");
  for (Process& rank : job.ranks()) {
    EXPECT_TRUE(rank.WaitForLine("failed ", seconds(30))) << rank.output();
    EXPECT_TRUE(rank.WaitForLine("destroyed", seconds(30))) << rank.output();
  }
  EXPECT_LT(Since(begin), seconds(25));
}

TEST(Processes, TwentyRoundsLeaveNothingBehind) {
  constexpr int kRounds = 20, kSize = 3;
  // One arena: with one a thread, what is freed stays for a while where each thread has been.
  Job job(kSize, {"rounds", std::to_string(kRounds)}, {{"MALLOC_ARENA_MAX", "1"}});
  for (int round = 0; round < kRounds; ++round) {
    for (int rank = 0; rank < kSize; ++rank) {
      ASSERT_TRUE(job.agent().WaitProgress(static_cast<std::uint32_t>(rank), round, seconds(60)))
          << "round " << round << ": " << job[rank].output();
    }
    if (round + 1 < kRounds) job.agent().BeginRound("again");
  }
  for (Process& rank : job.ranks()) {
    EXPECT_EQ(rank.Wait(seconds(60)), 0) << rank.output();
    const auto line = rank.WaitForLine("left ", seconds(1));
    ASSERT_TRUE(line) << rank.output();
    int descriptors = 0, threads = 0, pages = 0;
    ASSERT_EQ(std::sscanf(line->c_str(), "%d %d %d", &descriptors, &threads, &pages), 3);
    EXPECT_LE(descriptors, 0);
    EXPECT_LE(threads, 0);
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    EXPECT_LT(pages, 25'000);  // the sanitizer keeps freed memory for a while
#else
    EXPECT_LT(pages, 500);  // less than two of the buffers
#endif
    std::printf("  gained: %d descriptors, %d threads, %d pages\n", descriptors, threads, pages);
  }
}

// The testbed's case: another address than the loopback's, if this host has one.
TEST(Processes, FormOnTheFirstInterface) {
  Job job(2, {"reduce"}, {{"NCCL_SOCKET_IFNAME", ""}});
  for (Process& rank : job.ranks()) {
    EXPECT_EQ(rank.Wait(seconds(60)), 0) << rank.output();
  }
}

TEST(Processes, InterfaceThatIsNotThereIsSaid) {
  Job job(2, {"reduce"}, {{"NCCL_SOCKET_IFNAME", "=nosuch0"}, {"MUSTER_TEST_TIMEOUT_MS", "1000"}});
  EXPECT_EQ(job[0].Wait(seconds(30)), 3);
  EXPECT_THAT(job[0].output(), HasSubstr("no socket interface found"));
}

}  // namespace
}  // namespace muster::test
