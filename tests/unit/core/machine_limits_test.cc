// What is above a limit is answered with the limit's name, and costs the others nothing.

#include <gtest/gtest.h>

#include <string>
#include <variant>

#include "rendezvousd/core/limits.h"
#include "rendezvousd/core/machine.h"

namespace muster::core {
namespace {

using protocol::AgentId;

class MachineLimits : public testing::Test {
 protected:
  MachineLimits() : machine_(Make()) {
    Join("n1", 1);
    protocol::Ready ready;
    ready.fence = {0, 1};
    ready.master_address = "n1";
    ready.master_port = 1;
    machine_.Step(AgentMessage{{Id("n1", 1), 1, ready}}, now_);
  }
  static protocol::Config Make() {
    protocol::Config config;
    config.run_id = "r";
    config.version = "1";
    config.nodes = {"n1"};
    return config;
  }
  static AgentId Id(const std::string& node, std::uint64_t incarnation) {
    return {{node, 0, 0}, incarnation};
  }
  Effects Join(const std::string& node, std::uint64_t incarnation) {
    protocol::Hello hello;
    hello.version = "1";
    hello.run_id = "r";
    return machine_.Step(AgentMessage{{Id(node, incarnation), 0, hello}}, now_);
  }
  protocol::KeyRequest Request(protocol::KeyOperation operation, const std::string& key) {
    protocol::KeyRequest request;
    request.id = {Id("n1", 1), 0};
    request.fence = {0, 1};
    request.operation = operation;
    request.key = key;
    return request;
  }
  protocol::KeyAnswer Ask(const protocol::KeyRequest& request) {
    for (const Effect& effect : machine_.Step(KeyCall{++token_, request}, now_)) {
      if (const auto* reply = std::get_if<ReplyKey>(&effect)) return reply->answer;
    }
    return {.status = Unavailable("parked"), .value = {}, .number = 0};
  }

  TimePoint now_{std::chrono::hours(1)};
  Token token_ = 0;
  Machine machine_;
};

TEST_F(MachineLimits, KeysAndValues) {
  auto request = Request(protocol::KeyOperation::kSet, std::string(limits::kKeyBytesMax, 'k'));
  request.value = std::string(limits::kValueBytesMax, 'v');
  EXPECT_TRUE(Ask(request).status.ok());
  request.key = "other";
  request.value += 'v';
  EXPECT_EQ(Ask(request).status.code(), StatusCode::kResourceExhausted);
  request = Request(protocol::KeyOperation::kSet, std::string(limits::kKeyBytesMax + 1, 'k'));
  EXPECT_EQ(Ask(request).status.code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(Ask(Request(protocol::KeyOperation::kSet, "")).status.code(),
            StatusCode::kInvalidArgument);
}

TEST_F(MachineLimits, AllValuesTogether) {
  auto request = Request(protocol::KeyOperation::kSet, "");
  request.value = std::string(limits::kValueBytesMax, 'v');
  for (std::size_t i = 0; i < limits::kValueBytesTotalMax / limits::kValueBytesMax; ++i) {
    request.key = "k" + std::to_string(i);
    ASSERT_TRUE(Ask(request).status.ok());
  }
  request.key = "one more";
  const Status status = Ask(request).status;
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_NE(status.message().find(std::to_string(limits::kValueBytesTotalMax)), std::string::npos);
  // The round's end gives it all back.
  machine_.Step(HostMessage{protocol::OperatorRequest{protocol::OperatorAction::kRestart, "x"}},
                now_);
  request.of_run = true;
  EXPECT_TRUE(Ask(request).status.ok());
}

TEST_F(MachineLimits, Agents) {
  for (std::size_t i = 1; i < limits::kAgentsMax; ++i) {
    Join("m" + std::to_string(i), 1);
  }
  const Effects effects = Join("one too many", 1);
  bool refused = false;
  for (const Effect& effect : effects) {
    if (const auto* dismiss = std::get_if<Dismiss>(&effect)) {
      refused = dismiss->reason.code() == StatusCode::kResourceExhausted;
    }
  }
  EXPECT_TRUE(refused);
  // A dead one makes room.
  machine_.Step(AgentDead{Id("m7", 1), protocol::Cause::kAgent, "gone"}, now_);
  Join("one too many", 1);
  EXPECT_TRUE(machine_.CurrentOrder(Id("one too many", 1), now_).has_value());
  machine_.CheckInvariants(now_);
}

TEST_F(MachineLimits, AnsweredRequestsAreForgottenFromTheOldest) {
  auto request = Request(protocol::KeyOperation::kAdd, "sum");
  request.delta = 1;
  for (std::uint64_t i = 1; i <= limits::kRememberedAnswers + 1; ++i) {
    request.id.number = i;
    EXPECT_EQ(Ask(request).number, static_cast<std::int64_t>(i));
  }
  EXPECT_EQ(Ask(request).number, static_cast<std::int64_t>(limits::kRememberedAnswers + 1));
  request.id.number = 2;
  EXPECT_EQ(Ask(request).number, 2);
  machine_.CheckInvariants(now_);
}

TEST_F(MachineLimits, LongTextsAreCut) {
  protocol::WorkerExited exit;
  exit.fence = {0, 1};
  exit.exit_code = 1;
  exit.last_line = std::string(100'000, 'x');
  machine_.Step(AgentMessage{{Id("n1", 1), 2, exit}}, now_);
  EXPECT_LE(machine_.View(now_).last_blame.text.size(), limits::kTextBytesMax + 100);
}

TEST_F(MachineLimits, AnAdderThatWouldOverflowIsRefused) {
  auto request = Request(protocol::KeyOperation::kAdd, "sum");
  request.delta = std::numeric_limits<std::int64_t>::max();
  EXPECT_TRUE(Ask(request).status.ok());
  request.delta = 1;
  EXPECT_EQ(Ask(request).status.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Ask(Request(protocol::KeyOperation::kGet, "sum")).value, "9223372036854775807");
}

// A join costs the same number of effects in a world of any size: none of them goes to others.
TEST_F(MachineLimits, AJoinTellsNobodyElse) {
  for (int i = 1; i < 1000; ++i) {
    ASSERT_LE(Join("m" + std::to_string(i), 1).size(), 2U);
  }
}

}  // namespace
}  // namespace muster::core
