#include "launcher/agent/relay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::agent {
namespace {

// Answers as the test says, on the caller's thread.
class FakeClient : public client::Client {
 public:
  std::unique_ptr<client::AttendSession> Attend(client::AttendEvents) override { return nullptr; }
  std::unique_ptr<client::HostSession> ServeHost(client::HostEvents) override { return nullptr; }
  void Key(protocol::KeyRequest request, Duration,
           std::function<void(protocol::KeyAnswer)> done) override {
    keys.push_back(request);
    done(key_answers.empty() ? protocol::KeyAnswer{} : key_answers.front());
    if (!key_answers.empty()) key_answers.erase(key_answers.begin());
  }
  void Barrier(protocol::BarrierRequest request, Duration,
               std::function<void(Status)> done) override {
    barriers.push_back(request);
    done(OkStatus());
  }
  Result<protocol::RunView> View(Duration) override { return Unavailable("fake"); }
  Status Operate(protocol::OperatorRequest, Duration) override { return Unavailable("fake"); }

  std::vector<protocol::KeyRequest> keys;
  std::vector<protocol::KeyAnswer> key_answers;
  std::vector<protocol::BarrierRequest> barriers;
};

struct Answer {
  ConnectionId connection = 0;
  std::uint64_t id = 0;
  StatusCode code{};
  std::string message;
  std::string value;
  std::int64_t number = 0;
};

class RelayTest : public testing::Test {
 protected:
  RelayTest()
      : relay_(&loop_, &client_, {{"n1", 0, 0}, 5},
               [this](ConnectionId connection, const std::string& frame) {
                 local::FrameReader reader(std::string_view(frame).substr(local::kHeaderBytes));
                 Answer answer;
                 answer.connection = connection;
                 std::uint32_t code = 0;
                 EXPECT_TRUE(reader.Read(&answer.id) && reader.Read(&code) &&
                             reader.Read(&answer.message) && reader.Read(&answer.value) &&
                             reader.Read(&answer.number));
                 answer.code = static_cast<StatusCode>(code);
                 answers_.push_back(answer);
               }) {}

  RelayCaller Caller(std::uint32_t rank) { return {{0, 1}, rank, {4, 5}}; }
  void RunFor(Duration duration) {
    loop_.After(duration, [this] { loop_.Stop(); });
    ASSERT_TRUE(loop_.Run().ok());
  }

  EventLoop loop_;
  FakeClient client_;
  std::vector<Answer> answers_;
  Relay relay_;
};

TEST_F(RelayTest, AKeyGoesUpWithTheWorkersRoundAndComesBack) {
  protocol::KeyAnswer sum;
  sum.number = 7;
  client_.key_answers = {sum};
  LocalKey message;
  message.id = 3;
  message.operation = protocol::KeyOperation::kAdd;
  message.key = "k";
  message.delta = 2;
  relay_.Key(11, Caller(4), message);
  RunFor(std::chrono::milliseconds(20));
  ASSERT_EQ(client_.keys.size(), 1U);
  EXPECT_EQ(client_.keys[0].fence, (protocol::Fence{0, 1}));
  EXPECT_EQ(client_.keys[0].delta, 2);
  EXPECT_GT(client_.keys[0].id.number, 0U);
  ASSERT_EQ(answers_.size(), 1U);
  EXPECT_EQ(answers_[0].connection, 11U);
  EXPECT_EQ(answers_[0].id, 3U);
  EXPECT_EQ(answers_[0].number, 7);
}

TEST_F(RelayTest, WhileTheDaemonIsAwayTheSameRequestIsRepeated) {
  protocol::KeyAnswer away;
  away.status = Unavailable("restarting");
  client_.key_answers = {away, away};
  LocalKey message;
  message.id = 3;
  message.operation = protocol::KeyOperation::kAdd;
  message.key = "k";
  relay_.Key(11, Caller(4), message);
  RunFor(std::chrono::milliseconds(800));
  ASSERT_EQ(client_.keys.size(), 3U);
  EXPECT_EQ(client_.keys[0].id, client_.keys[2].id);
  ASSERT_EQ(answers_.size(), 1U);
  EXPECT_EQ(answers_[0].code, StatusCode::kOk);
}

TEST_F(RelayTest, LocalBarriersAreJoined) {
  relay_.Barrier(11, Caller(4), {1, std::chrono::seconds(5), "b"});
  RunFor(std::chrono::milliseconds(20));
  EXPECT_TRUE(client_.barriers.empty());
  EXPECT_TRUE(answers_.empty());
  relay_.Barrier(12, Caller(5), {2, std::chrono::seconds(5), "b"});
  RunFor(std::chrono::milliseconds(20));
  ASSERT_EQ(client_.barriers.size(), 1U);
  EXPECT_EQ(client_.barriers[0].ranks, (std::vector<std::uint32_t>{4, 5}));
  EXPECT_EQ(answers_.size(), 2U);
  // The same name again is a new barrier.
  relay_.Barrier(11, Caller(4), {3, std::chrono::seconds(5), "b"});
  relay_.Barrier(12, Caller(5), {4, std::chrono::seconds(5), "b"});
  RunFor(std::chrono::milliseconds(20));
  ASSERT_EQ(client_.barriers.size(), 2U);
  EXPECT_NE(client_.barriers[0].id, client_.barriers[1].id);
}

TEST_F(RelayTest, ALocalBarrierThatIsNeverFullNamesWhoIsMissing) {
  relay_.Barrier(11, Caller(4), {1, std::chrono::milliseconds(30), "b"});
  RunFor(std::chrono::milliseconds(100));
  ASSERT_EQ(answers_.size(), 1U);
  EXPECT_EQ(answers_[0].code, StatusCode::kDeadlineExceeded);
  EXPECT_THAT(answers_[0].message, testing::HasSubstr("rank 5"));
  EXPECT_TRUE(client_.barriers.empty());
}

TEST_F(RelayTest, ARoundsEndFreesItsBarriers) {
  relay_.Barrier(11, Caller(4), {1, std::chrono::seconds(60), "b"});
  relay_.EndRounds({0, 0});
  EXPECT_TRUE(answers_.empty());
  relay_.EndRounds({0, 1});
  ASSERT_EQ(answers_.size(), 1U);
  EXPECT_EQ(answers_[0].code, StatusCode::kFailedPrecondition);
}

TEST_F(RelayTest, ARankThatComesTwiceIsRefused) {
  relay_.Barrier(11, Caller(4), {1, std::chrono::seconds(5), "b"});
  relay_.Barrier(11, Caller(4), {2, std::chrono::seconds(5), "b"});
  ASSERT_EQ(answers_.size(), 1U);
  EXPECT_EQ(answers_[0].id, 2U);
  EXPECT_EQ(answers_[0].code, StatusCode::kAlreadyExists);
}

}  // namespace
}  // namespace muster::agent
