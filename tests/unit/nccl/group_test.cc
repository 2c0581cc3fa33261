// The NCCL group on the stand-in, ranks as threads of this process.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <numeric>
#include <random>
#include <semaphore>

#include "tests/unit/comm/world.h"
#include "trainer_runtime/comm/nccl_group.h"

namespace muster::comm {
namespace {

using test::World;
using ::testing::AllOf;
using ::testing::HasSubstr;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using std::chrono::seconds;

class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) {
    setenv(name, value.c_str(), 1);
  }
  ~Variable() { unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
};

NcclOptions Options() {
  NcclOptions options;
  options.nccl_library = MUSTER_STANDIN;
  return options;
}

Result<std::unique_ptr<ProcessGroup>> Group(World& world, int rank,
                                            const NcclOptions& options = Options(),
                                            session::RoundId newer_than = {}) {
  return CreateNcclGroup(world.session(rank), world.Round(rank, newer_than), options);
}

std::vector<float> Values(int rank, std::size_t count) {
  std::mt19937 random(static_cast<unsigned>(rank) * 7919U + static_cast<unsigned>(count));
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

class NcclGroupTest : public ::testing::Test {
 protected:
  const Variable interface_{"NCCL_SOCKET_IFNAME", "lo"};
};

// ------------------------------------------------------------------------------- results

class Sizes : public ::testing::TestWithParam<std::tuple<int, std::size_t>> {
 protected:
  const Variable interface_{"NCCL_SOCKET_IFNAME", "lo"};
};

TEST_P(Sizes, AllReduceIsExactAndHasGloosBits) {
  const auto [size, count] = GetParam();
  World world(size);
  std::vector<std::vector<float>> nccl(static_cast<std::size_t>(size)), gloo = nccl;
  world.OnEach([&, count = count](int rank) {
    auto group = Group(world, rank);
    ASSERT_TRUE(group.ok()) << group.status().ToString();
    auto& values = nccl[static_cast<std::size_t>(rank)];
    values = Values(rank, count);
    const Status status = (*group)->AllReduce(values).Wait();
    EXPECT_TRUE(status.ok()) << status.ToString();
    (*group)->Close();
    EXPECT_TRUE((*group)->state().ok()) << (*group)->state().ToString();
  });
  world.WithGroups([&, count = count](int rank, ProcessGroup& group) {
    auto& values = gloo[static_cast<std::size_t>(rank)];
    values = Values(rank, count);
    EXPECT_TRUE(group.AllReduce(values).Wait().ok());
  });
  std::vector<double> exact(count), magnitude(count);
  for (int rank = 0; rank < size; ++rank) {
    const auto values = Values(rank, count);
    for (std::size_t i = 0; i < count; ++i) {
      exact[i] += static_cast<double>(values[i]);
      magnitude[i] += std::fabs(static_cast<double>(values[i]));
    }
  }
  for (int rank = 0; rank < size; ++rank) {
    const auto& values = nccl[static_cast<std::size_t>(rank)];
    ASSERT_EQ(std::memcmp(values.data(), nccl[0].data(), count * sizeof(float)), 0)
        << "rank " << rank << " has other bits than rank 0";
    ASSERT_EQ(std::memcmp(values.data(), gloo[0].data(), count * sizeof(float)), 0)
        << "other bits than Gloo's";
  }
  for (std::size_t i = 0; i < count; ++i) {
    // size - 1 additions, each with half a unit in the last place of the largest sum.
    ASSERT_NEAR(static_cast<double>(nccl[0][i]), exact[i], size * 6e-8 * magnitude[i]);
  }
}

INSTANTIATE_TEST_SUITE_P(Worlds, Sizes,
                         ::testing::Combine(::testing::Values(1, 2, 3, 4),
                                            ::testing::Values(1, 17, 8192, 8193, 100'003,
                                                              1'000'000)));

TEST_F(NcclGroupTest, BroadcastAndAllGatherMoveBytes) {
  constexpr int kSize = 3;
  World world(kSize);
  world.OnEach([&](int rank) {
    auto group = Group(world, rank);
    ASSERT_TRUE(group.ok()) << group.status().ToString();
    for (const std::size_t count : {std::size_t{1}, std::size_t{1000}, std::size_t{3'000'001}}) {
      for (int root = 0; root < kSize; ++root) {
        std::vector<std::byte> bytes(count, std::byte(rank == root ? 100 + root : 0));
        ASSERT_TRUE((*group)->Broadcast(bytes, root).Wait().ok());
        EXPECT_EQ(bytes, std::vector<std::byte>(count, std::byte(100 + root)));
      }
      const std::vector<std::byte> own(count, std::byte(rank + 1));
      std::vector<std::byte> all(count * kSize);
      ASSERT_TRUE((*group)->AllGather(own, all).Wait().ok());
      for (std::size_t i = 0; i < all.size(); ++i) {
        ASSERT_EQ(all[i], std::byte(i / count + 1)) << i;
      }
    }
    EXPECT_TRUE((*group)->Barrier().Wait().ok());
    EXPECT_TRUE((*group)->AllReduce({}).Wait().ok());
    (*group)->Close();
    const Status later = (*group)->Barrier().Wait();
    EXPECT_EQ(later.code(), StatusCode::kFailedPrecondition);
    EXPECT_THAT(later.message(), HasSubstr("closed"));
  });
}

TEST_F(NcclGroupTest, OperationsQueueUpInOrder) {
  World world(2);
  world.OnEach([&](int rank) {
    auto group = Group(world, rank);
    ASSERT_TRUE(group.ok()) << group.status().ToString();
    std::vector<std::vector<float>> buckets(50, std::vector<float>(1000, 1.0F));
    std::vector<Work> works;
    for (auto& bucket : buckets) works.push_back((*group)->AllReduce(bucket));
    for (auto& bucket : buckets) works.push_back((*group)->AllReduce(bucket));
    for (const Work& work : works) ASSERT_TRUE(work.Wait().ok());
    for (const auto& bucket : buckets) EXPECT_EQ(bucket, std::vector<float>(1000, 4.0F));
    (*group)->Close();
  });
}

// ------------------------------------------------------------------------------- failures

TEST_F(NcclGroupTest, AbortEndsPendingAndLaterOperationsAtOnce) {
  // Rank 1 hangs by itself and does not see that rank 0 goes first.
  const Variable hang("MUSTER_STANDIN_HANG", "1:3");
  World world(2);
  std::binary_semaphore first_is_over(0);
  world.OnEach([&](int rank) {
    auto group = Group(world, rank);
    ASSERT_TRUE(group.ok()) << group.status().ToString();
    std::vector<float> values(100'000, 1.0F), others(10, 1.0F);
    for (int i = 0; i < 2; ++i) ASSERT_TRUE((*group)->AllReduce(values).Wait().ok());
    const Work hung = (*group)->AllReduce(values);
    const Work behind = (*group)->AllReduce(others);
    std::this_thread::sleep_for(milliseconds(100));
    EXPECT_FALSE(hung.done());
    if (rank == 1) first_is_over.acquire();
    const auto begin = Clock::now();
    (*group)->Abort(Aborted("the test says so"));
    EXPECT_EQ(hung.Wait().ToString(), Aborted("the test says so").ToString());
    EXPECT_EQ(behind.Wait().ToString(), Aborted("the test says so").ToString());
    EXPECT_EQ((*group)->Barrier().Wait().ToString(), Aborted("the test says so").ToString());
    EXPECT_LT(Clock::now() - begin, seconds(1));
    if (rank == 0) first_is_over.release();
  });
}

TEST_F(NcclGroupTest, EndOfTheRoundAborts) {
  const Variable hang("MUSTER_STANDIN_HANG", "0:1");
  World world(2);
  world.OnEach([&](int rank) {
    auto group = Group(world, rank);
    ASSERT_TRUE(group.ok()) << group.status().ToString();
    std::vector<float> values(10, 1.0F);
    const Work hung = (*group)->AllReduce(values);
    std::this_thread::sleep_for(milliseconds(50));
    if (rank == 0) world.agent().EndRound("a node was lost");
    const Status status = hung.Wait();
    // Rank 1 may see that rank 0 is gone before it hears of the round.
    if (rank == 1 && status.code() == StatusCode::kUnavailable) return;
    EXPECT_EQ(status.code(), StatusCode::kAborted);
    EXPECT_THAT(status.message(), HasSubstr("a node was lost"));
  });
}

TEST_F(NcclGroupTest, RemoteErrorNamesRankAndCommunicator) {
  const Variable error("MUSTER_STANDIN_REMOTE_ERROR", "1:2");
  World world(2);
  world.OnEach([&](int rank) {
    auto group = Group(world, rank);
    ASSERT_TRUE(group.ok()) << group.status().ToString();
    std::vector<float> values(10, 1.0F);
    ASSERT_TRUE((*group)->AllReduce(values).Wait().ok());
    const Status status = (*group)->AllReduce(values).Wait();
    EXPECT_EQ(status.code(), StatusCode::kUnavailable);
    EXPECT_THAT(status.message(),
                AllOf(HasSubstr("NCCL communicator \"world\" of attempt 0 round 1"),
                      HasSubstr("rank " + std::to_string(rank) + " of 2"),
                      HasSubstr("all-reduce of 10 floats"), HasSubstr("ncclRemoteError")));
    EXPECT_EQ((*group)->state(), status);
  });
}

TEST_F(NcclGroupTest, PeerThatGoesIsNoticedBetweenOperations) {
  World world(2);
  world.OnEach([&](int rank) {
    auto group = Group(world, rank);
    ASSERT_TRUE(group.ok()) << group.status().ToString();
    ASSERT_TRUE((*group)->Barrier().Wait().ok());
    if (rank == 1) return;  // its destructor aborts
    const auto deadline = Clock::now() + seconds(5);
    while ((*group)->state().ok() && Clock::now() < deadline) {
      std::this_thread::sleep_for(milliseconds(10));
    }
    EXPECT_EQ((*group)->state().code(), StatusCode::kUnavailable);
    EXPECT_THAT((*group)->state().message(), HasSubstr("rank 1"));
  });
}

TEST_F(NcclGroupTest, FormingHasADeadline) {
  const Variable hang("MUSTER_STANDIN_INIT_HANG", "1");
  World world(2);
  std::atomic<int> late = 0;
  world.OnEach([&](int rank) {
    NcclOptions options = Options();
    options.connect_timeout = milliseconds(700);
    const auto begin = Clock::now();
    const auto group = Group(world, rank, options);
    const auto took = Clock::now() - begin;
    ASSERT_FALSE(group.ok());
    EXPECT_THAT(group.status().message(), HasSubstr("forming among 2 ranks"));
    // Whoever gives up first closes its connections, which the other may see before its own end.
    if (group.status().code() == StatusCode::kDeadlineExceeded) {
      ++late;
      EXPECT_THAT(group.status().message(), HasSubstr("a rank is missing"));
    } else {
      EXPECT_EQ(group.status().code(), StatusCode::kUnavailable) << group.status().ToString();
    }
    EXPECT_GE(took, milliseconds(600));
    EXPECT_LT(took, seconds(3));
  });
  EXPECT_GE(late, 1);
}

TEST_F(NcclGroupTest, MissingRanksAreNamedBeforeNcclStarts) {
  World world(6);
  world.OnEach([&](int rank) {
    if (rank != 0 && rank != 3) return;
    NcclOptions options = Options();
    options.connect_timeout = milliseconds(400);
    const auto group = Group(world, rank, options);
    ASSERT_FALSE(group.ok());
    EXPECT_EQ(group.status().code(), StatusCode::kDeadlineExceeded);
    EXPECT_THAT(group.status().message(), rank == 0
                                              ? HasSubstr("ranks 1, 2, 4 and 1 more have not come")
                                              : HasSubstr("which rank 0 makes once all are here"));
  });
}

TEST_F(NcclGroupTest, StopEndsForming) {
  const Variable hang("MUSTER_STANDIN_INIT_HANG", "0");
  World world(2);
  std::stop_source stop;
  const std::jthread stopper([&] {
    std::this_thread::sleep_for(milliseconds(200));
    stop.request_stop();
  });
  const auto begin = Clock::now();
  world.OnEach([&](int rank) {
    const auto group =
        CreateNcclGroup(world.session(rank), world.Round(rank), Options(), stop.get_token());
    ASSERT_FALSE(group.ok());
    EXPECT_EQ(group.status().code(), StatusCode::kAborted);
  });
  EXPECT_LT(Clock::now() - begin, seconds(2));
}

TEST_F(NcclGroupTest, OperationHasADeadline) {
  const Variable hang("MUSTER_STANDIN_HANG", "1:1");
  World world(2);
  world.OnEach([&](int rank) {
    NcclOptions options = Options();
    options.operation_timeout = milliseconds(300);
    auto group = Group(world, rank, options);
    ASSERT_TRUE(group.ok()) << group.status().ToString();
    const Status status = (*group)->Barrier().Wait();
    // Whoever gives up first closes its connections, which the other may see before its own end.
    EXPECT_TRUE(status.code() == StatusCode::kDeadlineExceeded ||
                status.code() == StatusCode::kUnavailable)
        << status.ToString();
  });
}

TEST_F(NcclGroupTest, AbortsWhereTheLibraryCannotRevoke) {
  const Variable old("MUSTER_STANDIN_REVOKE_FAILS", "1");
  const Variable hang("MUSTER_STANDIN_HANG", "0:1");
  World world(1);
  auto group = Group(world, 0);
  ASSERT_TRUE(group.ok()) << group.status().ToString();
  const Work hung = (*group)->Barrier();
  std::this_thread::sleep_for(milliseconds(50));
  const auto begin = Clock::now();
  (*group)->Abort(Aborted("now"));
  EXPECT_EQ(hung.Wait().ToString(), Aborted("now").ToString());
  EXPECT_LT(Clock::now() - begin, seconds(1));
}

TEST_F(NcclGroupTest, OutOfDeviceMemorySaysHowMuch) {
  const Variable memory("MUSTER_STANDIN_DEVICE_MEMORY", "1000000");
  World world(1);
  auto group = Group(world, 0);
  ASSERT_TRUE(group.ok()) << group.status().ToString();
  std::vector<float> values(10, 1.0F);
  const Status status = (*group)->AllReduce(values).Wait();
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(status.message(), AllOf(HasSubstr("1048576 bytes"), HasSubstr("out of memory"),
                                      HasSubstr("rank 0 of 1")));
}

TEST_F(NcclGroupTest, NoDeviceIsExplained) {
  const Variable none("MUSTER_STANDIN_DEVICES", "0");
  World world(1);
  const auto group = Group(world, 0);
  ASSERT_FALSE(group.ok());
  EXPECT_EQ(group.status().code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(group.status().message(),
              AllOf(HasSubstr("no CUDA-capable device"), HasSubstr("nvidia-smi")));
}

TEST_F(NcclGroupTest, TooFewDevicesAreExplained) {
  const Variable two("MUSTER_STANDIN_DEVICES", "2");
  World world(1);
  session::RoundInfo info = world.Round(0);
  info.local_rank = 2;
  info.local_world_size = 3;
  const auto group = CreateNcclGroup(world.session(0), info, Options());
  ASSERT_FALSE(group.ok());
  EXPECT_THAT(group.status().message(),
              AllOf(HasSubstr("local rank 2"), HasSubstr("3 ranks see 2")));
}

// ------------------------------------------------------------------------------- again and again

std::size_t Entries(const char* folder) {
  return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(folder),
                                                std::filesystem::directory_iterator()));
}

// In pages.
std::size_t ResidentSize() {
  std::ifstream file("/proc/self/statm");
  std::size_t total = 0, resident = 0;
  file >> total >> resident;
  return resident;
}

bool Settles(const std::function<bool()>& condition) {
  for (int i = 0; i < 300 && !condition(); ++i) std::this_thread::sleep_for(milliseconds(10));
  return condition();
}

TEST_F(NcclGroupTest, TwentyRoundsLeaveNothingBehind) {
  constexpr int kSize = 3, kRounds = 20, kWarm = 4;
  World world(kSize);
  std::size_t descriptors = 0, threads = 0, pages = 0;
  std::barrier all_have_reduced(kSize);
  for (int round = 0; round < kRounds; ++round) {
    if (round > 0) world.agent().BeginRound("again");
    world.OnEach([&](int rank) {
      const session::RoundId newer{0, static_cast<std::uint32_t>(round)};
      auto group = Group(world, rank, Options(), newer);
      ASSERT_TRUE(group.ok()) << group.status().ToString();
      std::vector<float> values(500'000, 1.0F);
      ASSERT_TRUE((*group)->AllReduce(values).Wait().ok());
      EXPECT_EQ(values[17], static_cast<float>(kSize));
      all_have_reduced.arrive_and_wait();
      if (round % 3 == 0) (*group)->Close();
      if (round % 3 == 1) (*group)->Abort(Aborted("on purpose"));
    });
    if (round == kWarm) {
      std::this_thread::sleep_for(milliseconds(200));
      descriptors = Entries("/proc/self/fd");
      threads = Entries("/proc/self/task");
      pages = ResidentSize();
    }
  }
  EXPECT_TRUE(Settles([&] { return Entries("/proc/self/fd") <= descriptors; }))
      << Entries("/proc/self/fd") << " descriptors, " << descriptors << " before";
  EXPECT_TRUE(Settles([&] { return Entries("/proc/self/task") <= threads; }))
      << Entries("/proc/self/task") << " threads, " << threads << " before";
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  constexpr std::size_t kGrowthMax = 25'000;  // the sanitizer keeps freed memory for a while
#else
  constexpr std::size_t kGrowthMax = 2500;
#endif
  EXPECT_LT(ResidentSize(), pages + kGrowthMax) << "pages of 4 KiB, " << pages << " before";
}

}  // namespace
}  // namespace muster::comm
