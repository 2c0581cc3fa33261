// kill -9 of the daemon while everything is under way: the next one on the same socket goes on.

#include <gtest/gtest.h>

#include <csignal>
#include <cstdio>
#include <future>
#include <thread>

#include "rendezvousd/server/exit_code.h"
#include "tests/integration/daemon/daemon_process.h"
#include "tests/integration/daemon/fake_agent.h"

namespace muster::testing {
namespace {

using protocol::OrderKind;
using namespace std::chrono_literals;
constexpr Duration kSoon = 10s;

protocol::KeyRequest Request(const FakeAgent& agent, std::uint64_t number,
                             protocol::KeyOperation operation, std::string key) {
  protocol::KeyRequest request;
  request.id = {agent.id(), number};
  request.fence = agent.fence();
  request.operation = operation;
  request.key = std::move(key);
  return request;
}

std::future<protocol::KeyAnswer> Ask(client::Client* client, protocol::KeyRequest request,
                                     Duration deadline = 30s) {
  auto promise = std::make_shared<std::promise<protocol::KeyAnswer>>();
  client->Key(std::move(request), deadline,
              [promise](protocol::KeyAnswer got) { promise->set_value(std::move(got)); });
  return promise->get_future();
}

std::future<Status> Meet(client::Client* client, protocol::BarrierRequest request,
                         Duration deadline = 30s) {
  auto promise = std::make_shared<std::promise<Status>>();
  client->Barrier(std::move(request), deadline,
                  [promise](Status status) { promise->set_value(std::move(status)); });
  return promise->get_future();
}

TEST(Restart, TheSameRoundRunsAndWaitersAreAnswered) {
  DaemonProcess daemon({"n0", "n1"});
  daemon.Start();
  const auto client = daemon.Join();
  FakeAgent first(client.get(), "n0", 11);
  FakeAgent second(client.get(), "n1", 12);
  ASSERT_TRUE(first.WaitForOrder(OrderKind::kRun, kSoon).has_value());
  ASSERT_TRUE(second.WaitForOrder(OrderKind::kRun, kSoon).has_value());
  auto set = Request(first, 1, protocol::KeyOperation::kSet, "before");
  set.value = "kept";
  ASSERT_TRUE(Ask(client.get(), set).get().status.ok());
  auto add = Request(first, 2, protocol::KeyOperation::kAdd, "count");
  add.delta = 3;
  ASSERT_EQ(Ask(client.get(), add).get().number, 3);

  auto waited = Ask(client.get(), Request(second, 1, protocol::KeyOperation::kWait, "after"));
  auto met_first = Meet(client.get(), {{first.id(), 3}, first.fence(), "b", {0}});
  std::this_thread::sleep_for(200ms);  // both are parked in the daemon

  const TimePoint killed = SteadyNow();
  EXPECT_EQ(daemon.Kill(SIGKILL), 128 + SIGKILL);
  std::this_thread::sleep_for(100ms);  // clients knock at a door that nobody opens
  daemon.Start();
  const TimePoint restarted = SteadyNow();
  ASSERT_TRUE(first.WaitForConnections(2, kSoon));
  ASSERT_TRUE(second.WaitForConnections(2, kSoon));
  std::printf("re-attended %lld ms after the start, %lld ms after the kill\n",
              static_cast<long long>((SteadyNow() - restarted) / 1ms),
              static_cast<long long>((SteadyNow() - killed) / 1ms));

  // An add whose answer may have been lost is not counted again; a key from before is there.
  EXPECT_EQ(Ask(client.get(), add).get().number, 3);
  EXPECT_EQ(
      Ask(client.get(), Request(second, 0, protocol::KeyOperation::kGet, "before")).get().value,
      "kept");
  auto after = Request(first, 4, protocol::KeyOperation::kSet, "after");
  after.value = "new";
  ASSERT_TRUE(Ask(client.get(), after).get().status.ok());
  ASSERT_EQ(waited.wait_for(kSoon), std::future_status::ready);
  EXPECT_EQ(waited.get().value, "new");
  auto met_second = Meet(client.get(), {{second.id(), 2}, second.fence(), "b", {1}});
  ASSERT_EQ(met_second.wait_for(kSoon), std::future_status::ready);
  EXPECT_TRUE(met_second.get().ok());
  ASSERT_EQ(met_first.wait_for(kSoon), std::future_status::ready);
  EXPECT_TRUE(met_first.get().ok());

  // Nothing happened to the round.
  const auto order = first.WaitForOrder(OrderKind::kRun, kSoon);
  ASSERT_TRUE(order.has_value());
  EXPECT_EQ(order->fence, (protocol::Fence{0, 1}));
  EXPECT_EQ(first.runs_seen(1), 1);
  EXPECT_EQ(second.runs_seen(1), 1);
  EXPECT_EQ(second.runs_seen(2), 0);
}

TEST(Restart, WhatWasSaidWhileItWasAwayIsSaidAgain) {
  DaemonProcess daemon({"n0"});
  daemon.options.config.budgets[protocol::Cause::kCode] = {3};
  daemon.Start();
  const auto client = daemon.Join();
  FakeAgent agent(client.get(), "n0", 11);
  ASSERT_TRUE(agent.WaitForOrder(OrderKind::kRun, kSoon).has_value());
  daemon.Kill(SIGKILL);
  std::this_thread::sleep_for(100ms);
  agent.SayDone();  // nobody hears it
  daemon.Start();
  EXPECT_TRUE(agent.WaitForOrder(OrderKind::kClose, kSoon).has_value());
}

TEST(Restart, ManyTimesInARow) {
  DaemonProcess daemon({"n0", "n1"});
  daemon.Start();
  const auto client = daemon.Join();
  FakeAgent first(client.get(), "n0", 11);
  FakeAgent second(client.get(), "n1", 12);
  ASSERT_TRUE(first.WaitForOrder(OrderKind::kRun, kSoon).has_value());
  for (int i = 1; i <= 5; ++i) {
    auto add = Request(first, static_cast<std::uint64_t>(i), protocol::KeyOperation::kAdd, "sum");
    add.of_run = true;
    add.delta = 1;
    auto sum = Ask(client.get(), add);  // answered by the daemon of now, or by the next
    daemon.Kill(SIGKILL);
    daemon.Start();
    ASSERT_EQ(sum.wait_for(kSoon), std::future_status::ready);
    EXPECT_EQ(sum.get().number, i);
  }
  EXPECT_EQ(first.runs_seen(1), 1);
  EXPECT_EQ(first.runs_seen(2), 0);
}

TEST(Restart, AnAgentThatNeverComesBackIsMissed) {
  DaemonProcess daemon({"n0", "n1"});
  daemon.options.config.beat = 100ms;
  daemon.options.config.lease = 500ms;
  daemon.options.config.attend_grace = 300ms;
  daemon.Start();
  const auto client = daemon.Join();
  FakeAgent first(client.get(), "n0", 11);
  auto second = std::make_unique<FakeAgent>(client.get(), "n1", 12);
  ASSERT_TRUE(first.WaitForOrder(OrderKind::kRun, kSoon).has_value());
  daemon.Kill(SIGKILL);
  second.reset();
  daemon.Start();
  // Its machine answers a probe (first says so): the agent is dead, and the round ends.
  bool ended = false;
  for (std::uint64_t i = 1; i < 100 && !ended; ++i) {
    first.SayBeat(i);
    ended = first.WaitForOrder(OrderKind::kWait, 100ms).has_value();
  }
  EXPECT_TRUE(ended);
}

TEST(Restart, AnotherAttemptsJournalIsRefused) {
  DaemonProcess daemon({"n0"});
  daemon.Start();
  const auto client = daemon.Join();
  FakeAgent agent(client.get(), "n0", 11);
  ASSERT_TRUE(agent.WaitForOrder(OrderKind::kRun, kSoon).has_value());
  daemon.Kill(SIGKILL);
  daemon.options.config.attempt = 1;
  daemon.Start();
  EXPECT_EQ(daemon.Wait(kSoon), server::exit_code::kJournal);
}

TEST(Restart, ASecondDaemonOnOneJournalIsRefused) {
  DaemonProcess daemon({"n0"});
  daemon.Start();
  const auto operate = daemon.Operate();
  ASSERT_TRUE(operate->View(kSoon).ok());
  DaemonProcess second({"n0"});
  second.options.journal = daemon.options.journal;
  second.Start();
  EXPECT_EQ(second.Wait(kSoon), server::exit_code::kSystem);
}

}  // namespace
}  // namespace muster::testing
