// A run from hello to verdict, with keys and barriers, against a real rendezvousd.

#include <gtest/gtest.h>

#include <sys/stat.h>
#include <csignal>
#include <filesystem>
#include <future>
#include <nlohmann/json.hpp>

#include "rendezvousd/server/exit_code.h"
#include "tests/integration/daemon/daemon_process.h"
#include "tests/integration/daemon/fake_agent.h"

namespace muster::testing {
namespace {

using protocol::OrderKind;
using namespace std::chrono_literals;

constexpr Duration kSoon = 10s;

// The host's part: takes wishes, answers finish.
class FakeHost {
 public:
  explicit FakeHost(client::Client* client) {
    client::HostEvents events;
    events.on_connected = [this] {
      const std::lock_guard lock(mutex_);
      raw_->Send(protocol::HostFacts{});
    };
    events.on_wishes = [this](const std::vector<protocol::Wish>& wishes) {
      const std::lock_guard lock(mutex_);
      for (const protocol::Wish& wish : wishes) {
        raw_->Send(protocol::WishAnswer{wish.id, protocol::WishState::kDone, ""});
        if (wish.kind == protocol::WishKind::kFinish) finish_.set_value(wish.verdict);
      }
    };
    events.on_disconnected = [](const Status&) {};
    const std::lock_guard lock(mutex_);
    session_ = client->ServeHost(std::move(events));
    raw_ = session_.get();
  }
  std::optional<protocol::Verdict> WaitForFinish(Duration limit) {
    auto future = finish_.get_future();
    if (future.wait_for(limit) != std::future_status::ready) return std::nullopt;
    return future.get();
  }

 private:
  std::mutex mutex_;
  std::promise<protocol::Verdict> finish_;
  client::HostSession* raw_ = nullptr;
  std::unique_ptr<client::HostSession> session_;
};

protocol::KeyAnswer Ask(client::Client* client, protocol::KeyRequest request,
                        Duration deadline = kSoon) {
  std::promise<protocol::KeyAnswer> answer;
  client->Key(std::move(request), deadline,
              [&](protocol::KeyAnswer got) { answer.set_value(std::move(got)); });
  return answer.get_future().get();
}

protocol::KeyRequest Request(const FakeAgent& agent, std::uint64_t number,
                             protocol::KeyOperation operation, std::string key) {
  protocol::KeyRequest request;
  request.id = {agent.id(), number};
  request.fence = agent.fence();
  request.operation = operation;
  request.key = std::move(key);
  return request;
}

TEST(Run, FormsServesKeysAndBarriersAndEndsWithTheVerdict) {
  DaemonProcess daemon({"n0", "n1"});
  daemon.Start();
  const auto client = daemon.Join();
  const auto operate = daemon.Operate();
  FakeHost host(operate.get());
  FakeAgent first(client.get(), "n0", 11);
  FakeAgent second(client.get(), "n1", 12);
  const auto order = first.WaitForOrder(OrderKind::kRun, kSoon);
  ASSERT_TRUE(order.has_value());
  ASSERT_TRUE(second.WaitForOrder(OrderKind::kRun, kSoon).has_value());
  EXPECT_EQ(order->fence, (protocol::Fence{0, 1}));
  EXPECT_EQ(order->assignment.world_size, 2U);
  EXPECT_EQ(order->master_port, 4321U);

  // A key that is waited for before it is set, with bytes that are no UTF-8.
  std::promise<protocol::KeyAnswer> waited;
  const std::string key = "k\xFF\x01";
  client->Key(Request(second, 1, protocol::KeyOperation::kWait, key), kSoon,
              [&](protocol::KeyAnswer got) { waited.set_value(std::move(got)); });
  auto set = Request(first, 1, protocol::KeyOperation::kSet, key);
  set.value = std::string("\0\xFE value", 8);
  EXPECT_TRUE(Ask(client.get(), set).status.ok());
  auto future = waited.get_future();
  ASSERT_EQ(future.wait_for(kSoon), std::future_status::ready);
  EXPECT_EQ(future.get().value, set.value);

  // The same add twice counts once.
  auto add = Request(first, 2, protocol::KeyOperation::kAdd, "count");
  add.delta = 5;
  EXPECT_EQ(Ask(client.get(), add).number, 5);
  EXPECT_EQ(Ask(client.get(), add).number, 5);

  std::promise<Status> met[2];
  client->Barrier({{first.id(), 3}, first.fence(), "b", {0}}, kSoon,
                  [&](Status status) { met[0].set_value(std::move(status)); });
  client->Barrier({{second.id(), 3}, second.fence(), "b", {1}}, kSoon,
                  [&](Status status) { met[1].set_value(std::move(status)); });
  EXPECT_TRUE(met[0].get_future().get().ok());
  EXPECT_TRUE(met[1].get_future().get().ok());

  first.SayBeat(77);
  const auto beat = first.WaitForBeat(77, kSoon);
  ASSERT_TRUE(beat.has_value());
  EXPECT_EQ(beat->fence, order->fence);

  first.SayProgress(41);
  first.SayBeat(78);  // one stream keeps its order
  ASSERT_TRUE(first.WaitForBeat(78, kSoon).has_value());
  const auto view = operate->View(kSoon);
  ASSERT_TRUE(view.ok()) << view.status().ToString();
  EXPECT_EQ(view->world_size, 2U);
  EXPECT_EQ(view->agents.at(0).last_step, 41);

  first.SayDone();
  second.SayDone();
  EXPECT_TRUE(first.WaitForOrder(OrderKind::kClose, kSoon).has_value());
  const auto verdict = host.WaitForFinish(kSoon);
  ASSERT_TRUE(verdict.has_value());
  EXPECT_EQ(verdict->outcome, protocol::Outcome::kSucceeded);
  EXPECT_EQ(daemon.Wait(kSoon), server::exit_code::kDone);

  const auto written = nlohmann::json::parse(daemon.StateFile("verdict-0.json"));
  EXPECT_EQ(written["verdict"]["outcome"], "succeeded");
  EXPECT_EQ(nlohmann::json::parse(daemon.StateFile("status.json"))["run_id"], "test-run");
  EXPECT_NE(daemon.StateFile("events-0.jsonl").find("round started"), std::string::npos);
  struct stat info {};
  ASSERT_EQ(stat((daemon.options.state_dir + "/status.json").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600U);
  ASSERT_EQ(stat(daemon.options.journal.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600U);
}

TEST(Run, AWaitIsAnsweredBeforeItsDeadlineWithTheReason) {
  DaemonProcess daemon({"n0"});
  daemon.Start();
  const auto client = daemon.Join();
  FakeAgent agent(client.get(), "n0", 11);
  ASSERT_TRUE(agent.WaitForOrder(OrderKind::kRun, kSoon).has_value());
  const TimePoint start = SteadyNow();
  const auto answer =
      Ask(client.get(), Request(agent, 1, protocol::KeyOperation::kWait, "never-set"), 500ms);
  EXPECT_EQ(answer.status.code(), StatusCode::kDeadlineExceeded);
  EXPECT_NE(answer.status.message().find("never-set"), std::string::npos)
      << answer.status.ToString();
  EXPECT_LT(SteadyNow() - start, 500ms);

  std::promise<Status> met;
  auto request = protocol::BarrierRequest{{agent.id(), 2}, agent.fence(), "lonely", {}};
  request.fence.round = 99;
  client->Barrier(request, 500ms, [&](Status status) { met.set_value(std::move(status)); });
  const Status stale = met.get_future().get();
  EXPECT_EQ(stale.code(), StatusCode::kFailedPrecondition) << stale.ToString();
}

TEST(Run, AnOperatorsStopEndsIt) {
  DaemonProcess daemon({"n0"});
  daemon.Start();
  const auto client = daemon.Join();
  const auto operate = daemon.Operate();
  FakeAgent agent(client.get(), "n0", 11);
  ASSERT_TRUE(agent.WaitForOrder(OrderKind::kRun, kSoon).has_value());
  ASSERT_TRUE(
      operate->Operate({protocol::OperatorAction::kCancel, "enough for today"}, kSoon).ok());
  const auto close = agent.WaitForOrder(OrderKind::kClose, kSoon);
  ASSERT_TRUE(close.has_value());
  EXPECT_EQ(close->verdict.outcome, protocol::Outcome::kStopped);
  // No host attends: the daemon waits for one, then ends; the verdict is in the files.
  EXPECT_EQ(daemon.Wait(20s), server::exit_code::kDone);
  EXPECT_NE(daemon.StateFile("verdict-0.json").find("enough for today"), std::string::npos);
}

TEST(Run, SigtermStopsItCleanlyAndTheNextDaemonGoesOn) {
  DaemonProcess daemon({"n0"});
  daemon.Start();
  const auto client = daemon.Join();
  FakeAgent agent(client.get(), "n0", 11);
  ASSERT_TRUE(agent.WaitForOrder(OrderKind::kRun, kSoon).has_value());
  std::promise<protocol::KeyAnswer> waited;
  client->Key(Request(agent, 0, protocol::KeyOperation::kWait, "k"), 30s,
              [&](protocol::KeyAnswer got) { waited.set_value(std::move(got)); });
  const TimePoint start = SteadyNow();
  EXPECT_EQ(daemon.Kill(SIGTERM), server::exit_code::kStopped);
  EXPECT_LT(SteadyNow() - start, 5s);
  daemon.Start();
  ASSERT_TRUE(agent.WaitForConnections(2, kSoon));
  auto set = Request(agent, 2, protocol::KeyOperation::kSet, "k");
  set.value = "v";
  EXPECT_TRUE(Ask(client.get(), set).status.ok());
  auto future = waited.get_future();
  ASSERT_EQ(future.wait_for(kSoon), std::future_status::ready);
  EXPECT_EQ(future.get().value, "v");
}

TEST(Run, AFullOrForeignStateFolderHarmsNothing) {
  DaemonProcess daemon({"n0"});
  daemon.options.state_dir = "/proc/muster-cannot-be-made";
  daemon.Start();
  const auto client = daemon.Join();
  FakeAgent agent(client.get(), "n0", 11);
  EXPECT_TRUE(agent.WaitForOrder(OrderKind::kRun, kSoon).has_value());
}

}  // namespace
}  // namespace muster::testing
