// What happens to a Gloo group when a peer dies, freezes or never comes.

#include <arpa/inet.h>
#include <dirent.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <barrier>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "proto/environment.h"
#include "tests/unit/comm/world.h"
#include "trainer_runtime/comm/gloo_group.h"

namespace muster::comm {
namespace {

using namespace std::chrono_literals;
using test::World;
using ::testing::HasSubstr;

// Far above what is expected (milliseconds), far below every time-out that would hide a hang: the
// machine may be busy.
constexpr Duration kSoon = 5s;

// A rank in a process of its own, killed at the end.
class Peer {
 public:
  explicit Peer(test::FakeAgent& agent) {
    setenv(environment::kAgentSocket, agent.socket_path().c_str(), 1);
    char name[] = MUSTER_COMM_PEER;
    char* arguments[] = {name, nullptr};
    EXPECT_EQ(posix_spawn(&pid_, name, nullptr, nullptr, arguments, environ), 0);
    unsetenv(environment::kAgentSocket);
  }
  ~Peer() {
    if (pid_ > 0) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
  }
  void Signal(int number) { kill(pid_, number); }
  int Wait() {
    int status = 0;
    waitpid(pid_, &status, 0);
    pid_ = -1;
    return status;
  }

 private:
  pid_t pid_ = -1;
};

// Rank 0 here, ranks 1 .. size-1 in processes; all are reducing when it returns.
class KillableWorld {
 public:
  explicit KillableWorld(int size, const GlooOptions& options = {})
      : agent_(static_cast<std::uint32_t>(size)) {
    session_ = test::ConnectTo(agent_);
    EXPECT_TRUE(agent_.WaitRegistered(1, 10s));
    for (int rank = 1; rank < size; ++rank) {
      peers_.push_back(std::make_unique<Peer>(agent_));
      EXPECT_TRUE(agent_.WaitRegistered(static_cast<std::size_t>(rank) + 1, 20s));
    }
    agent_.BeginRound("initial");
    info_ = session_->WaitForRound({}, 10s).value();
    auto group = CreateGlooGroup(*session_, info_, options);
    EXPECT_TRUE(group.ok()) << group.status().ToString();
    group_ = std::move(group).value();
    thread_ = std::jthread([this] { Reduce(); });
    EXPECT_TRUE(agent_.WaitProgress(static_cast<std::uint32_t>(size) - 1, 5, 20s));
  }

  Peer& peer(int rank) { return *peers_[static_cast<std::size_t>(rank) - 1]; }
  test::FakeAgent& agent() { return agent_; }
  ProcessGroup& group() { return *group_; }
  session::Session& session() { return *session_; }
  void WaitReduced(int count) {
    while (reduced_ < count) std::this_thread::sleep_for(1ms);
  }
  // How the endless reduction ended, and how long after `since`.
  Status Ended(TimePoint since, Duration* delay) {
    thread_.join();
    *delay = ended_at_ - since;
    return ended_;
  }

 private:
  void Reduce() {
    std::vector<float> values(1 << 18, 1.0F);
    const char* limit = std::getenv("MUSTER_TEST_REDUCTIONS");
    const int reductions = limit != nullptr ? std::atoi(limit) : INT_MAX;
    while (ended_.ok() && reduced_ < reductions) {
      ended_ = group_->AllReduce(values).Wait();
      ++reduced_;
    }
    ended_at_ = SteadyNow();
  }

  test::FakeAgent agent_;
  std::unique_ptr<session::Session> session_;
  session::RoundInfo info_;
  std::unique_ptr<ProcessGroup> group_;
  std::vector<std::unique_ptr<Peer>> peers_;
  std::atomic<int> reduced_ = 0;
  Status ended_;
  TimePoint ended_at_;
  std::jthread thread_;
};

TEST(GlooFailure, AKilledPeerIsNoticedAtOnce) {
  KillableWorld world(3);
  const TimePoint start = SteadyNow();
  world.peer(1).Signal(SIGKILL);
  Duration delay{};
  const Status status = world.Ended(start, &delay);
  EXPECT_EQ(status.code(), StatusCode::kUnavailable) << status.ToString();
  EXPECT_THAT(status.message(), HasSubstr("rank "));
  EXPECT_LT(delay, kSoon);
  RecordProperty("microseconds", std::to_string(delay / 1us));
  // The third one hears it from us or from the dead one's sockets.
  EXPECT_EQ(WEXITSTATUS(world.peer(2).Wait()), 3);
  EXPECT_FALSE(world.group().Barrier().Wait().ok());
}

TEST(GlooFailure, AKilledPeerIsNoticedWhileNothingIsReduced) {
  setenv("MUSTER_TEST_REDUCTIONS", "10", 1);
  KillableWorld world(2);
  unsetenv("MUSTER_TEST_REDUCTIONS");
  world.WaitReduced(10);
  EXPECT_TRUE(world.group().state().ok());
  world.peer(1).Signal(SIGKILL);
  const TimePoint start = SteadyNow();
  while (world.group().state().ok() && SteadyNow() - start < kSoon) {
    std::this_thread::sleep_for(1ms);
  }
  EXPECT_EQ(world.group().state().code(), StatusCode::kUnavailable);
  EXPECT_THAT(world.group().state().message(), HasSubstr("rank 1"));
}

// Gloo does not end the wait of a send that is in its queue when the connection breaks; only the
// watching does. Many short lives make that likely.
TEST(GlooFailure, KilledPeersAreNoticedWhateverTheyWereDoing) {
  for (int i = 0; i < 20; ++i) {
    KillableWorld world(2);
    std::this_thread::sleep_for(i * 300us);
    const TimePoint start = SteadyNow();
    world.peer(1).Signal(SIGKILL);
    Duration delay{};
    EXPECT_EQ(world.Ended(start, &delay).code(), StatusCode::kUnavailable);
    EXPECT_LT(delay, kSoon);
  }
}

TEST(GlooFailure, AFrozenPeerMeetsTheDeadline) {
  GlooOptions options;
  options.transfer_timeout = 300ms;
  KillableWorld world(3, options);
  const TimePoint start = SteadyNow();
  world.peer(2).Signal(SIGSTOP);
  Duration delay{};
  const Status status = world.Ended(start, &delay);
  EXPECT_EQ(status.code(), StatusCode::kDeadlineExceeded) << status.ToString();
  EXPECT_GE(delay, 290ms);
  EXPECT_LT(delay, kSoon);
}

TEST(GlooFailure, TheRoundsEndFreesARankFromAFrozenPeer) {
  KillableWorld world(3);
  world.peer(2).Signal(SIGSTOP);
  std::this_thread::sleep_for(100ms);
  EXPECT_TRUE(world.group().state().ok());
  const TimePoint start = SteadyNow();
  world.agent().EndRound("hang: rank 2 makes no progress");
  Duration delay{};
  const Status status = world.Ended(start, &delay);
  // Rank 1 hears of it too: whether its closed connection or the notice is first here is chance.
  EXPECT_FALSE(status.ok());
  if (status.code() == StatusCode::kAborted) {
    EXPECT_THAT(status.message(), HasSubstr("rank 2 makes no progress"));
  }
  EXPECT_LT(delay, kSoon);
  RecordProperty("microseconds", std::to_string(delay / 1us));
}

TEST(GlooFailure, AbortFromAnotherThreadEndsAllThatIsQueued) {
  World world(2);
  world.WithGroups([&](int rank, ProcessGroup& group) {
    if (rank == 1) {
      // Takes no part: rank 0 can only be freed by an abort, or by our end.
      std::this_thread::sleep_for(50ms);
      while (group.state().ok()) std::this_thread::sleep_for(1ms);
      return;
    }
    std::vector<float> values(100000);
    std::vector<Work> works;
    for (int i = 0; i < 5; ++i) works.push_back(group.AllReduce(values));
    std::jthread aborter([&] {
      std::this_thread::sleep_for(30ms);
      group.Abort(Aborted("enough"));
      group.Abort(Aborted("more than enough"));
    });
    const TimePoint start = SteadyNow();
    for (const Work& work : works) EXPECT_EQ(work.Wait(), Aborted("enough"));
    EXPECT_LT(SteadyNow() - start, kSoon);
    EXPECT_EQ(group.Barrier().Wait(), Aborted("enough"));
    world.agent().EndRound("end of test");
  });
}

TEST(GlooFailure, AMissingRankIsNamedByADeadline) {
  test::FakeAgent agent(2);
  auto session = test::ConnectTo(agent);
  agent.BeginRound("initial");
  const auto info = session->WaitForRound({}, 10s).value();
  GlooOptions options;
  options.connect_timeout = 50ms;
  const auto group = CreateGlooGroup(*session, info, options);
  EXPECT_EQ(group.status().code(), StatusCode::kDeadlineExceeded) << group.status().ToString();
}

TEST(GlooFailure, TheRoundsEndEndsAWaitForAMissingRank) {
  test::FakeAgent agent(2);
  auto session = test::ConnectTo(agent);
  agent.BeginRound("initial");
  const auto info = session->WaitForRound({}, 10s).value();
  std::jthread ender([&] {
    std::this_thread::sleep_for(50ms);
    agent.EndRound("node n1 is gone");
  });
  const TimePoint start = SteadyNow();
  const auto group = CreateGlooGroup(*session, info, {});
  EXPECT_EQ(group.status().code(), StatusCode::kAborted);
  EXPECT_THAT(group.status().message(), HasSubstr("n1 is gone"));
  EXPECT_LT(SteadyNow() - start, kSoon);
}

// A socket that takes no connection any more: its queue is full, further SYNs are dropped, as by a
// node without power.
class DeafListener {
 public:
  DeafListener() {
    address_.sin_family = AF_INET;
    address_.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address_);
    auto* generic = reinterpret_cast<sockaddr*>(&address_);
    Open();
    EXPECT_EQ(bind(sockets_[0], generic, size), 0);
    EXPECT_EQ(listen(sockets_[0], 0), 0);
    EXPECT_EQ(getsockname(sockets_[0], generic, &size), 0);
    for (int i = 0; i < 3; ++i) {
      Open();
      [[maybe_unused]] const int pending = connect(sockets_.back(), generic, size);
    }
  }
  ~DeafListener() {
    for (const int socket : sockets_) close(socket);
  }
  const sockaddr_in& address() const { return address_; }

 private:
  void Open() { sockets_.push_back(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0)); }
  sockaddr_in address_{};
  std::vector<int> sockets_;
};

// In a world of two: the address of rank 1's one pair.
Status PublishAsRank1(World& world, const DeafListener& deaf) {
  sockaddr_storage storage{};
  std::memcpy(&storage, &deaf.address(), sizeof(sockaddr_in));
  std::string packed(reinterpret_cast<const char*>(&storage), sizeof(storage));
  packed.append(reinterpret_cast<const char*>(&deaf.address().sin_port), sizeof(in_port_t));
  return world.session(1).KeySet(session::KeyScope::kRound, "gloo/world/1", packed);
}

TEST(GlooFailure, AStopTokenEndsAMeshThatDoesNotComeUp) {
  World world(2);
  const auto info = world.Round(0);
  world.Round(1);
  const DeafListener deaf;
  ASSERT_TRUE(PublishAsRank1(world, deaf).ok());
  std::stop_source source;
  std::jthread stopper([&] {
    std::this_thread::sleep_for(100ms);
    source.request_stop();
  });
  const TimePoint start = SteadyNow();
  const auto group = CreateGlooGroup(world.session(0), info, {}, source.get_token());
  EXPECT_EQ(group.status().code(), StatusCode::kAborted) << group.status().ToString();
  EXPECT_GE(SteadyNow() - start, 90ms);
  EXPECT_LT(SteadyNow() - start, kSoon);
}

TEST(GlooFailure, AMeshThatDoesNotComeUpMeetsTheDeadline) {
  World world(2);
  const auto info = world.Round(0);
  world.Round(1);
  const DeafListener deaf;
  ASSERT_TRUE(PublishAsRank1(world, deaf).ok());
  GlooOptions options;
  options.connect_timeout = 200ms;
  const TimePoint start = SteadyNow();
  const auto group = CreateGlooGroup(world.session(0), info, options);
  EXPECT_EQ(group.status().code(), StatusCode::kDeadlineExceeded) << group.status().ToString();
  EXPECT_THAT(group.status().message(), HasSubstr("rank 1"));
  EXPECT_LT(SteadyNow() - start, kSoon);
}

TEST(GlooFailure, ASwappedPeerIsFoundByItsGreeting) {
  World world(3);
  const auto info = world.Round(0);
  world.OnEach([&](int rank) {
    session::RoundInfo mine = world.Round(rank);
    if (rank == 2) mine.round = 7;  // a process that believes to be in another round
    GlooOptions options;
    options.connect_timeout = 5s;
    const auto group = CreateGlooGroup(world.session(rank), mine, options);
    EXPECT_FALSE(group.ok());
  });
}

std::size_t CountEntries(const char* folder) {
  std::size_t count = 0;
  DIR* directory = opendir(folder);
  while (readdir(directory) != nullptr) ++count;
  closedir(directory);
  return count;
}

std::size_t ResidentKib() {
  std::ifstream file("/proc/self/statm");
  std::size_t size = 0, resident = 0;
  file >> size >> resident;
  return resident * static_cast<std::size_t>(sysconf(_SC_PAGESIZE)) / 1024;
}

TEST(GlooFailure, FiftyReformingsLeakNothing) {
  World world(4);
  std::size_t descriptors = 0, threads = 0, resident = 0;
  for (int round = 1; round <= 50; ++round) {
    std::barrier reduced(4);  // the round must not end while somebody still reduces
    world.OnEach([&](int rank) {
      const auto info = world.Round(rank, {0, static_cast<std::uint32_t>(round) - 1});
      auto group = CreateGlooGroup(world.session(rank), info, {});
      ASSERT_TRUE(group.ok()) << group.status().ToString();
      std::vector<float> values(50000, 1.0F);
      ASSERT_TRUE((*group)->AllReduce(values).Wait().ok());
      ASSERT_EQ(values[49999], 4.0F);
      reduced.arrive_and_wait();
      if (rank == 3) {
        world.agent().EndRound("test");
      } else {  // rank 3 takes no part any more
        EXPECT_FALSE((*group)->AllReduce(values).Wait().ok());
      }
      group->reset();
      ASSERT_TRUE(world.session(rank).Quiesced(session::IdOf(info), round).ok());
    });
    ASSERT_TRUE(world.agent().WaitQuiesced({0, 1, 2, 3}, 10s));
    world.agent().BeginRound("again");
    if (round == 5) {  // what is made once is there now
      descriptors = CountEntries("/proc/self/fd");
      threads = CountEntries("/proc/self/task");
      resident = ResidentKib();
    }
  }
  EXPECT_EQ(CountEntries("/proc/self/fd"), descriptors);
  EXPECT_EQ(CountEntries("/proc/self/task"), threads);
  // A leaked scratch buffer of one rank is 1 MiB a round; sanitizers keep freed memory for a while.
#if !defined(__SANITIZE_ADDRESS__)
  EXPECT_LT(ResidentKib(), resident + (20U << 10U));
#else
  (void)resident;
#endif
}

}  // namespace
}  // namespace muster::comm
