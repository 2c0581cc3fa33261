// Many agents, many connections, few descriptors.

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <future>

#include "common/text.h"
#include "rendezvousd/server/exit_code.h"
#include "tests/integration/daemon/daemon_process.h"
#include "tests/integration/daemon/fake_agent.h"

namespace muster::testing {
namespace {

using protocol::OrderKind;
using namespace std::chrono_literals;
constexpr Duration kSoon = 60s;

std::vector<std::string> Nodes(std::size_t count) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < count; ++i) names.push_back(Concat("n", i));
  return names;
}

long long Ms(Duration duration) { return static_cast<long long>(duration / 1ms); }

TEST(Scale, AThousandAgentsForm) {
  constexpr std::size_t kAgents = 1000;
  constexpr std::size_t kChannels = 8;
  const auto names = Nodes(kAgents);
  DaemonProcess daemon(names);
  daemon.Start();
  std::vector<std::unique_ptr<client::Client>> clients;
  for (std::size_t i = 0; i < kChannels; ++i) clients.push_back(daemon.Join());
  const TimePoint start = SteadyNow();
  std::vector<std::unique_ptr<FakeAgent>> agents;
  for (std::size_t i = 0; i < kAgents; ++i) {
    agents.push_back(std::make_unique<FakeAgent>(clients[i % kChannels].get(), names[i], i + 1));
  }
  for (const auto& agent : agents) {
    ASSERT_TRUE(agent->WaitForOrder(OrderKind::kRun, kSoon).has_value());
  }
  std::printf("1000 agents over 8 channels run after %lld ms\n", Ms(SteadyNow() - start));
  std::vector<std::uint32_t> ranks;
  for (const auto& agent : agents) {
    ranks.push_back(agent->WaitForOrder(OrderKind::kRun, kSoon)->assignment.first_rank);
  }
  std::sort(ranks.begin(), ranks.end());
  for (std::uint32_t i = 0; i < kAgents; ++i) EXPECT_EQ(ranks[i], i);

  const TimePoint killed = SteadyNow();
  daemon.Kill(SIGKILL);
  daemon.Start();
  for (const auto& agent : agents) ASSERT_TRUE(agent->WaitForConnections(2, kSoon));
  std::printf("all attend the next daemon %lld ms after the kill\n", Ms(SteadyNow() - killed));
  for (const auto& agent : agents) EXPECT_EQ(agent->runs_seen(2), 0);
}

TEST(Scale, KeyLatency) {
  DaemonProcess daemon({"n0"});
  daemon.Start();
  const auto client = daemon.Join();
  FakeAgent agent(client.get(), "n0", 1);
  ASSERT_TRUE(agent.WaitForOrder(OrderKind::kRun, kSoon).has_value());
  constexpr int kCalls = 500;
  std::vector<Duration> times;
  for (int i = 0; i < kCalls; ++i) {
    protocol::KeyRequest request;
    request.id = {agent.id(), static_cast<std::uint64_t>(i) + 1};
    request.fence = agent.fence();
    request.operation = protocol::KeyOperation::kSet;
    request.key = Concat("key", i);
    request.value = "value";
    std::promise<Status> answer;
    const TimePoint start = SteadyNow();
    client->Key(request, kSoon,
                [&](const protocol::KeyAnswer& got) { answer.set_value(got.status); });
    ASSERT_TRUE(answer.get_future().get().ok());
    times.push_back(SteadyNow() - start);
  }
  std::sort(times.begin(), times.end());
  std::printf("key set, journalled: median %lld us, 99th percentile %lld us\n",
              static_cast<long long>(times[kCalls / 2] / 1us),
              static_cast<long long>(times[kCalls * 99 / 100] / 1us));
}

// Connections that say nothing, closed with the object.
class Strangers {
 public:
  explicit Strangers(const std::string& target) {
    address_.sin_family = AF_INET;
    address_.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const auto port = ParseInteger<std::uint16_t>("port", target.substr(target.rfind(':') + 1));
    address_.sin_port = htons(port.value());
  }
  ~Strangers() {
    for (const int fd : fds_) close(fd);
  }
  Strangers(const Strangers&) = delete;
  Strangers& operator=(const Strangers&) = delete;
  bool Connect() {
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return false;
    fds_.push_back(fd);
    return connect(fd, reinterpret_cast<const sockaddr*>(&address_), sizeof(address_)) == 0;
  }

 private:
  sockaddr_in address_{};
  std::vector<int> fds_;
};

TEST(Scale, FewDescriptorsShedStrangersAndServeOn) {
  DaemonProcess daemon({"n0"});
  daemon.wrapper = {"sh", "-c", "ulimit -n 128 && exec \"$@\"", "sh"};
  daemon.Start();
  const auto client = daemon.Join();
  FakeAgent agent(client.get(), "n0", 1);
  ASSERT_TRUE(agent.WaitForOrder(OrderKind::kRun, kSoon).has_value());
  {
    Strangers strangers(daemon.ClientOptions("aa").target);
    for (int i = 0; i < 400; ++i) ASSERT_TRUE(strangers.Connect());
    for (std::uint64_t i = 1; i <= 20; ++i) {
      agent.SayBeat(i);
      ASSERT_TRUE(agent.WaitForBeat(i, kSoon).has_value());
    }
  }
  // They are gone: whoever comes now is served.
  const auto operate = daemon.Operate();
  const TimePoint end = SteadyNow() + kSoon;
  Status status = Unavailable("not tried");
  while (!status.ok() && SteadyNow() < end) status = operate->View(5s).status();
  EXPECT_TRUE(status.ok()) << status.ToString();
}

TEST(Scale, TooFewDescriptorsForTheRunAreNamedAtTheStart) {
  DaemonProcess daemon(Nodes(200));
  daemon.wrapper = {"sh", "-c", "ulimit -n 128 && exec \"$@\"", "sh"};
  daemon.Start();
  EXPECT_EQ(daemon.Wait(kSoon), server::exit_code::kSystem);
}

TEST(Scale, FourThousandConnectionsAtOnceAreAccepted) {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
  if (limit.rlim_max < 5000) GTEST_SKIP() << "the hard limit of open files is below 5000";
  DaemonProcess daemon({"n0"});
  daemon.Start();
  const auto operate = daemon.Operate();
  ASSERT_TRUE(operate->View(kSoon).ok());
  Strangers strangers(daemon.ClientOptions("aa").target);
  const TimePoint start = SteadyNow();
  for (int i = 0; i < 4000; ++i) ASSERT_TRUE(strangers.Connect());
  std::printf("4000 connections in %lld ms\n", Ms(SteadyNow() - start));
  const auto fresh = daemon.Operate();
  const TimePoint asked = SteadyNow();
  EXPECT_TRUE(fresh->View(kSoon).ok());
  std::printf("a new client is answered %lld ms later\n", Ms(SteadyNow() - asked));
}

}  // namespace
}  // namespace muster::testing
