#include "trainer_runtime/session/session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <future>
#include <thread>

#include "common/text.h"
#include "tests/support/temporary_folder.h"
#include "tests/unit/session/fake_agent.h"

namespace muster::session {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::unique_ptr<Session> MustConnect(const test::FakeAgent& agent, bool can_reform = true) {
  Options options;
  options.socket_path = agent.socket_path();
  options.can_reform = can_reform;
  auto session = Session::Connect(options);
  EXPECT_TRUE(session.ok()) << session.status().ToString();
  return std::move(session).value();
}

RoundInfo MustWait(Session& session, RoundId newer_than = {}) {
  auto info = session.WaitForRound(newer_than, 10s);
  EXPECT_TRUE(info.ok()) << info.status().ToString();
  return info.value_or(RoundInfo{});
}

TEST(Session, WithoutAnAgentIsAWorldOfOne) {
  auto session = Session::Connect({});
  ASSERT_TRUE(session.ok());
  const RoundInfo info = MustWait(**session);
  EXPECT_EQ(info.world_size, 1U);
  EXPECT_EQ(info.rank, 0U);
  Session& alone = **session;
  EXPECT_TRUE(alone.KeySet(KeyScope::kRun, "a", "1").ok());
  EXPECT_EQ(alone.KeySet(KeyScope::kRun, "a", "2").code(), StatusCode::kAlreadyExists);
  EXPECT_EQ(alone.KeyGet(KeyScope::kRun, "a").value_or(""), "1");
  EXPECT_EQ(alone.KeyGet(KeyScope::kRound, "a").status().code(), StatusCode::kNotFound);
  EXPECT_EQ(alone.KeyAdd(KeyScope::kRound, "n", 3).value_or(0), 3);
  EXPECT_EQ(alone.KeyAdd(KeyScope::kRound, "n", -5).value_or(0), -2);
  EXPECT_EQ(alone.KeyAdd(KeyScope::kRound, "n", INT64_MIN).status().code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(alone.KeyWait(KeyScope::kRun, "never", 20ms).status().code(),
            StatusCode::kDeadlineExceeded);
  EXPECT_TRUE(alone.Barrier("b", 1s).ok());
  EXPECT_EQ(alone.Request(RequestKind::kRequeue, "x").code(), StatusCode::kFailedPrecondition);
}

TEST(Session, RegistersAndGetsItsRound) {
  test::FakeAgent agent(2);
  auto session = MustConnect(agent);
  ASSERT_TRUE(agent.WaitRegistered(1, 10s));
  EXPECT_EQ(agent.flags(0), local::kCanReform);
  EXPECT_FALSE(session->CurrentRound().has_value());
  EXPECT_EQ(session->WaitForRound({}, 10ms).status().code(), StatusCode::kDeadlineExceeded);
  agent.BeginRound("initial");
  const RoundInfo info = MustWait(*session);
  EXPECT_EQ(info.round, 1U);
  EXPECT_EQ(info.world_size, 2U);
  EXPECT_EQ(info.cause, "initial");
  EXPECT_EQ(info.run_id, "test");
}

TEST(Session, ProgressBrokenAndRequestsReachTheAgent) {
  test::FakeAgent agent(1);
  agent.BeginRound("initial");
  auto session = MustConnect(agent);
  const RoundInfo info = MustWait(*session);
  EXPECT_TRUE(session->Progress(Phase::kStep, 41).ok());
  EXPECT_TRUE(agent.WaitProgress(0, 41, 10s));
  EXPECT_TRUE(session->Broken(IdOf(info), "rank 1 is gone").ok());
  EXPECT_TRUE(session->Request(RequestKind::kRequeue, "walltime").ok());
  EXPECT_THAT(agent.broken_reasons(), ElementsAre("rank 1 is gone"));
  EXPECT_THAT(agent.requests(),
              ElementsAre(std::pair(RequestKind::kRequeue, std::string("walltime"))));
}

TEST(Session, KeysHaveTwoScopes) {
  test::FakeAgent agent(1);
  agent.BeginRound("initial");
  auto session = MustConnect(agent);
  MustWait(*session);
  EXPECT_TRUE(session->KeySet(KeyScope::kRound, "k", "round").ok());
  EXPECT_TRUE(session->KeySet(KeyScope::kRun, "k", std::string("ru\0n", 4)).ok());
  EXPECT_EQ(session->KeyGet(KeyScope::kRound, "k").value_or(""), "round");
  EXPECT_EQ(session->KeyGet(KeyScope::kRun, "k").value_or(""), std::string("ru\0n", 4));
  EXPECT_EQ(session->KeySet(KeyScope::kRound, "k", "other").code(), StatusCode::kAlreadyExists);
  EXPECT_EQ(session->KeyAdd(KeyScope::kRun, "n", 5).value_or(0), 5);
  EXPECT_EQ(session->KeyAdd(KeyScope::kRun, "n", 5).value_or(0), 10);
  EXPECT_EQ(session->KeyWait(KeyScope::kRound, "never", 30ms).status().code(),
            StatusCode::kDeadlineExceeded);
}

TEST(Session, ManyKeysAreWaitedForAtOnceInOrder) {
  test::FakeAgent agent(2);
  agent.BeginRound("initial");
  auto first = MustConnect(agent);
  MustWait(*first);
  auto second = MustConnect(agent);
  MustWait(*second);
  std::jthread setter([&] {
    for (int i = 9; i >= 0; --i) {
      EXPECT_TRUE(second->KeySet(KeyScope::kRound, Concat("k", i), std::to_string(i * i)).ok());
    }
  });
  std::vector<std::string> keys, squares;
  for (int i = 0; i < 10; ++i) {
    keys.push_back(Concat("k", i));
    squares.push_back(std::to_string(i * i));
  }
  auto values = first->KeyWaitAll(KeyScope::kRound, keys, 10s);
  ASSERT_TRUE(values.ok()) << values.status().ToString();
  EXPECT_EQ(*values, squares);
}

TEST(Session, AStopTokenEndsAWait) {
  test::FakeAgent agent(1);
  agent.BeginRound("initial");
  auto session = MustConnect(agent);
  MustWait(*session);
  std::stop_source source;
  std::jthread stopper([&] {
    std::this_thread::sleep_for(30ms);
    source.request_stop();
  });
  const TimePoint start = SteadyNow();
  const auto values = session->KeyWaitAll(KeyScope::kRound, {"never"}, 60s, source.get_token());
  EXPECT_EQ(values.status().code(), StatusCode::kAborted);
  EXPECT_LT(SteadyNow() - start, 10s);
}

TEST(Session, AValueThatDoesNotFitIsRefusedHere) {
  test::FakeAgent agent(1);
  agent.BeginRound("initial");
  auto session = MustConnect(agent);
  MustWait(*session);
  const std::string large(local::kFrameBytesMax, 'x');
  EXPECT_EQ(session->KeySet(KeyScope::kRound, "k", large).code(), StatusCode::kInvalidArgument);
  const std::string fits(std::size_t{1} << 20U, 'x');
  EXPECT_TRUE(session->KeySet(KeyScope::kRound, "k", fits).ok());
  EXPECT_EQ(session->KeyGet(KeyScope::kRound, "k").value_or(""), fits);
}

TEST(Session, ARoundEndsAndAnotherBegins) {
  test::FakeAgent agent(1);
  agent.BeginRound("initial");
  auto session = MustConnect(agent);
  const RoundInfo first = MustWait(*session);
  std::atomic<int> calls = 0;
  Status told;
  RoundWatch watch = session->WatchRound(IdOf(first), [&](const Status& reason) {
    told = reason;
    ++calls;
  });
  std::jthread waiter([&] {
    const auto value = session->KeyWait(KeyScope::kRound, "never", 60s);
    EXPECT_EQ(value.status().code(), StatusCode::kAborted);
    EXPECT_THAT(value.status().message(), HasSubstr("node n3 is gone"));
  });
  std::this_thread::sleep_for(20ms);
  agent.EndRound("node n3 is gone");
  waiter.join();
  ASSERT_TRUE(agent.WaitUntil([&] { return calls == 1; }, 10s));
  EXPECT_THAT(told.message(), HasSubstr("round 1 is ending: node n3 is gone"));
  EXPECT_FALSE(session->RoundState().ok());
  EXPECT_EQ(session->KeySet(KeyScope::kRound, "k", "v").code(), StatusCode::kAborted);
  EXPECT_TRUE(session->KeySet(KeyScope::kRun, "k", "v").ok());

  EXPECT_TRUE(session->Quiesced(IdOf(first), 17).ok());
  EXPECT_TRUE(agent.WaitQuiesced({0}, 10s));
  EXPECT_EQ(agent.quiesced_step(0), 17);
  EXPECT_EQ(session->Barrier("b", 1s).code(), StatusCode::kAborted);

  agent.BeginRound("node");
  const RoundInfo second = MustWait(*session, IdOf(first));
  EXPECT_EQ(second.round, 2U);
  EXPECT_TRUE(session->RoundState().ok());
  EXPECT_TRUE(session->KeySet(KeyScope::kRound, "k", "v").ok());
  EXPECT_EQ(calls, 1);

  // A watch of a round that is over calls at once.
  RoundWatch late = session->WatchRound(IdOf(first), [&](const Status&) { ++calls; });
  EXPECT_EQ(calls, 2);
}

TEST(Session, ACancelledWatchIsNotCalled) {
  test::FakeAgent agent(1);
  agent.BeginRound("initial");
  auto session = MustConnect(agent);
  const RoundInfo info = MustWait(*session);
  std::atomic<int> cancelled = 0, kept = 0;
  RoundWatch other = session->WatchRound(IdOf(info), [&](const Status&) { ++kept; });
  {
    RoundWatch watch = session->WatchRound(IdOf(info), [&](const Status&) { ++cancelled; });
  }
  agent.EndRound("x");
  ASSERT_TRUE(agent.WaitUntil([&] { return kept == 1; }, 10s));
  EXPECT_EQ(cancelled, 0);
}

TEST(Session, AnEndingThatIsToldAgainIsAnsweredAgain) {
  test::FakeAgent agent(1);
  agent.BeginRound("initial");
  auto session = MustConnect(agent);
  const RoundInfo info = MustWait(*session);
  EXPECT_TRUE(session->Progress(Phase::kStep, 5).ok());
  agent.EndRound("a");
  EXPECT_TRUE(session->WaitForEnd(IdOf(info), 10s));
  EXPECT_TRUE(session->Quiesced(IdOf(info), 5).ok());
  ASSERT_TRUE(agent.WaitQuiesced({0}, 10s));
  EXPECT_EQ(agent.quiesced_total(), 1);
  agent.EndRound("b");
  const TimePoint start = SteadyNow();
  while (agent.quiesced_total() < 2 && SteadyNow() - start < 10s) std::this_thread::sleep_for(1ms);
  EXPECT_EQ(agent.quiesced_total(), 2);
  EXPECT_EQ(agent.quiesced_step(0), 5);
}

TEST(Session, AnEndingOfARoundThatNeverCameIsAnsweredByItself) {
  test::FakeAgent agent(1);
  agent.BeginRound("initial");
  auto session = MustConnect(agent);
  const RoundInfo info = MustWait(*session);
  local::FrameWriter frame(local::FrameType::kRoundEnding);
  agent.SendRaw(frame.Add(std::uint32_t{0}).Add(std::uint32_t{7}).Add("superseded").Finish());
  const TimePoint start = SteadyNow();
  while (agent.quiesced_total() < 1 && SteadyNow() - start < 10s) std::this_thread::sleep_for(1ms);
  EXPECT_EQ(agent.quiesced_total(), 1);
  EXPECT_FALSE(session->WaitForEnd(IdOf(info), 1ms));
}

TEST(Session, BarriersFreeAllRanksOrFail) {
  test::FakeAgent agent(3);
  agent.BeginRound("initial");
  std::vector<std::unique_ptr<Session>> sessions;
  for (int i = 0; i < 3; ++i) {
    sessions.push_back(MustConnect(agent));
    MustWait(*sessions.back());
  }
  EXPECT_EQ(sessions[0]->Barrier("alone", 30ms).code(), StatusCode::kDeadlineExceeded);
  std::vector<std::jthread> threads;
  std::atomic<int> passed = 0;
  for (auto& session : sessions) {
    threads.emplace_back([&] { passed += session->Barrier("all", 10s).ok() ? 1 : 0; });
  }
  threads.clear();
  EXPECT_EQ(passed, 3);
}

TEST(Session, StopOrdersAreKept) {
  test::FakeAgent agent(1);
  agent.BeginRound("initial");
  auto session = MustConnect(agent);
  MustWait(*session);
  EXPECT_FALSE(session->stop_order().has_value());
  agent.SendStopAt(120, "time limit");
  ASSERT_TRUE(agent.WaitUntil([&] { return session->stop_order().has_value(); }, 10s));
  EXPECT_EQ(session->stop_order()->step, 120);
  EXPECT_EQ(session->stop_order()->reason, "time limit");
}

TEST(Session, TheAgentsDeathEndsEverythingAtOnce) {
  test::FakeAgent agent(1);
  agent.BeginRound("initial");
  auto session = MustConnect(agent);
  const RoundInfo info = MustWait(*session);
  std::atomic<int> calls = 0;
  RoundWatch watch = session->WatchRound(IdOf(info), [&](const Status& reason) {
    EXPECT_EQ(reason.code(), StatusCode::kUnavailable);
    ++calls;
  });
  std::jthread waiter([&] {
    EXPECT_EQ(session->KeyWait(KeyScope::kRun, "never", 60s).status().code(),
              StatusCode::kUnavailable);
  });
  std::this_thread::sleep_for(20ms);
  const TimePoint start = SteadyNow();
  agent.CloseAll();
  waiter.join();
  EXPECT_EQ(session->WaitForRound(IdOf(info), 60s).status().code(), StatusCode::kUnavailable);
  EXPECT_LT(SteadyNow() - start, 10s);
  // Sending into a closed socket: an error each time, never SIGPIPE.
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(session->KeySet(KeyScope::kRun, "k", "v").ok());
    EXPECT_FALSE(session->Progress(Phase::kStep, i).ok());
  }
  EXPECT_TRUE(agent.WaitUntil([&] { return calls == 1; }, 10s));
}

TEST(Session, AMuteAgentMeetsTheDeadline) {
  test::FakeAgent agent(1);
  agent.BeginRound("initial");
  auto session = MustConnect(agent);
  MustWait(*session);
  agent.SetMute(true);
  const auto got = session->KeyGet(KeyScope::kRun, "k", 10ms);
  EXPECT_EQ(got.status().code(), StatusCode::kDeadlineExceeded);
  EXPECT_THAT(got.status().message(), HasSubstr("\"k\""));
}

TEST(Session, FramesOfLaterVersionsAreReadOrRefused) {
  test::FakeAgent agent(1);
  agent.BeginRound("initial");
  auto session = MustConnect(agent);
  MustWait(*session);
  // An unknown type, and a known one with a field more at its end.
  agent.SendRaw(local::FrameWriter(static_cast<local::FrameType>(777)).Add("new").Finish());
  agent.SendRaw(local::FrameWriter(local::FrameType::kStopAt)
                    .Add(std::int64_t{9})
                    .Add("stop")
                    .Add(std::uint64_t{1})
                    .Finish());
  ASSERT_TRUE(agent.WaitUntil([&] { return session->stop_order().has_value(); }, 10s));
  EXPECT_EQ(session->stop_order()->step, 9);
  EXPECT_TRUE(session->KeySet(KeyScope::kRun, "k", "v").ok());
}

class BadFrame : public ::testing::TestWithParam<std::string> {};

TEST_P(BadFrame, EndsTheSession) {
  test::FakeAgent agent(1);
  agent.BeginRound("initial");
  auto session = MustConnect(agent);
  const RoundInfo info = MustWait(*session);
  agent.SendRaw(GetParam());
  EXPECT_EQ(session->WaitForRound(IdOf(info), 10s).status().code(), StatusCode::kUnavailable);
}

std::string TooLong() {
  std::string bytes = local::FrameWriter(local::FrameType::kRound).Finish();
  const std::uint32_t length = local::kFrameBytesMax + 1;
  std::memcpy(bytes.data(), &length, sizeof(length));
  return bytes;
}
std::string OtherVersion() {
  std::string bytes = local::FrameWriter(local::FrameType::kRound).Finish();
  bytes[6] = 2;
  return bytes;
}
std::string RankOutside() {
  local::RoundInfo info;
  info.round = 9;
  info.rank = 4;
  info.world_size = 4;
  local::FrameWriter frame(local::FrameType::kRound);
  info.Write(&frame);
  return frame.Finish();
}
INSTANTIATE_TEST_SUITE_P(
    All, BadFrame,
    ::testing::Values(TooLong(), OtherVersion(), RankOutside(),
                      local::FrameWriter(local::FrameType::kRound).Add(std::uint32_t{1}).Finish(),
                      local::FrameWriter(local::FrameType::kRoundEnding).Finish(),
                      local::FrameWriter(local::FrameType::kAnswer).Add("x").Finish(),
                      local::FrameWriter(local::FrameType::kStopAt).Finish()));

// connect() of a Unix socket waits for as long as the queue of the listener is full.
TEST(Session, AnAgentThatAcceptsNobodyMeetsTheDeadline) {
  const testing::TemporaryFolder folder;
  const std::string path = folder.path() + "/socket";
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  const auto* generic = reinterpret_cast<const sockaddr*>(&address);
  const int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  ASSERT_EQ(bind(listener, generic, sizeof(address)), 0);
  ASSERT_EQ(listen(listener, 0), 0);
  std::vector<int> queued;
  do {
    queued.push_back(socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  } while (connect(queued.back(), generic, sizeof(address)) == 0 && queued.size() < 100);
  ASSERT_EQ(errno, EAGAIN);

  Options options;
  options.socket_path = path;
  options.connect_timeout = 300ms;
  auto connected =
      std::async(std::launch::async, [&] { return Session::Connect(options).status(); });
  EXPECT_EQ(connected.wait_for(10s), std::future_status::ready);
  for (const int descriptor : queued) close(descriptor);
  close(listener);
  EXPECT_NE(connected.get().message().find("within 300ms"), std::string::npos);
}

TEST(Session, ConnectingNamesThePath) {
  Options options;
  options.socket_path = "/nonexistent/agent.socket";
  options.connect_timeout = 20ms;
  const auto missing = Session::Connect(options);
  EXPECT_EQ(missing.status().code(), StatusCode::kNotFound);
  EXPECT_THAT(missing.status().message(), HasSubstr("/nonexistent/agent.socket"));
  options.socket_path = std::string(200, 'x');
  EXPECT_EQ(Session::Connect(options).status().code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace muster::session
