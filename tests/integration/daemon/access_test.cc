// Who is let in, and what a stranger learns.

#include <gtest/gtest.h>

#include <future>

#include "common/hex.h"
#include "tests/integration/daemon/daemon_process.h"
#include "tests/integration/daemon/fake_agent.h"

namespace muster::testing {
namespace {

using namespace std::chrono_literals;
constexpr Duration kSoon = 10s;

class Access : public ::testing::Test {
 protected:
  void SetUp() override { daemon_.Start(); }
  // The final status of an agent that tries to attend.
  Status Attend(const client::Options& options) {
    const auto client = client::Client::Create(options).value();
    FakeAgent agent(client.get(), "n0", 7);
    return agent.WaitForFinal(kSoon).value_or(OkStatus());
  }
  DaemonProcess daemon_{{"n0"}};
};

TEST_F(Access, AWrongSecretIsRefused) {
  const Status status = Attend(daemon_.ClientOptions(std::string(64, 'a')));
  EXPECT_EQ(status.code(), StatusCode::kUnauthenticated) << status.ToString();
  EXPECT_EQ(status.message().find(daemon_.options.join_secret), std::string::npos);
}

TEST_F(Access, EachSecretOpensItsOwnDoorsOnly) {
  const Status status = Attend(daemon_.ClientOptions(daemon_.options.operator_secret));
  EXPECT_EQ(status.code(), StatusCode::kUnauthenticated) << status.ToString();
  const auto join = daemon_.Join();
  EXPECT_EQ(join->View(kSoon).status().code(), StatusCode::kUnauthenticated);
  EXPECT_EQ(join->Operate({protocol::OperatorAction::kCancel, "x"}, kSoon).code(),
            StatusCode::kUnauthenticated);
  std::promise<protocol::KeyAnswer> answer;
  const auto wrong =
      client::Client::Create(daemon_.ClientOptions(daemon_.options.operator_secret)).value();
  protocol::KeyRequest request;
  request.id.agent = {{"n0", 0, 0}, 7};
  wrong->Key(request, kSoon, [&](protocol::KeyAnswer got) { answer.set_value(std::move(got)); });
  EXPECT_EQ(answer.get_future().get().status.code(), StatusCode::kUnauthenticated);
  EXPECT_TRUE(daemon_.Operate()->View(kSoon).ok());
}

TEST_F(Access, AnotherRunsCertificateIsRefusedByTheClient) {
  client::Options options = daemon_.ClientOptions(daemon_.options.join_secret);
  options.certificate = client::MakeRunCredentials().value().certificate;
  const Status status = Attend(options);
  EXPECT_EQ(status.code(), StatusCode::kUnauthenticated) << status.ToString();
  const auto view = client::Client::Create(options).value()->View(kSoon);
  EXPECT_EQ(view.status().code(), StatusCode::kUnauthenticated) << view.status().ToString();
}

TEST_F(Access, AnotherVersionAndAnotherRunAreTurnedAway) {
  // FakeAgent says the right run and version: a daemon of another run must refuse it.
  DaemonProcess other({"n0"});
  other.options.config.run_id = "another-run";
  other.Start();
  const auto client = other.Join();
  FakeAgent agent(client.get(), "n0", 7);
  const auto status = agent.WaitForFinal(kSoon);
  ASSERT_TRUE(status.has_value());
  EXPECT_EQ(status->code(), StatusCode::kFailedPrecondition) << status->ToString();
  EXPECT_NE(status->message().find("another-run"), std::string::npos) << status->ToString();
}

TEST_F(Access, ANewIncarnationFencesTheOldOne) {
  const auto client = daemon_.Join();
  FakeAgent old_one(client.get(), "n0", 7);
  ASSERT_TRUE(old_one.WaitForOrder(protocol::OrderKind::kRun, kSoon).has_value());
  FakeAgent new_one(client.get(), "n0", 8);
  const auto status = old_one.WaitForFinal(kSoon);
  ASSERT_TRUE(status.has_value());
  EXPECT_EQ(status->code(), StatusCode::kAborted) << status->ToString();
  EXPECT_TRUE(new_one.WaitForOrder(protocol::OrderKind::kRun, kSoon, 2).has_value());
}

TEST(ClientOptions, NamesWhatIsWrong) {
  client::Options good;
  good.target = "127.0.0.1:1";
  good.secret = "aa";
  good.certificate = client::MakeRunCredentials().value().certificate;
  EXPECT_TRUE(client::Client::Create(good).ok());
  for (const char* target : {"localhost:1", "127.0.0.1", "127.0.0.1:0", "127.0.0.1:65536",
                             "fd00::1:4711", "[fd00::1]", "[n1]:5", "", ":1", "1.2.3:4"}) {
    client::Options options = good;
    options.target = target;
    EXPECT_EQ(client::Client::Create(options).status().code(), StatusCode::kInvalidArgument)
        << target;
  }
  client::Options six = good;
  six.target = "[fd00::1]:4711";
  EXPECT_TRUE(client::Client::Create(six).ok());
  for (const char* secret : {"", "xyz"}) {
    client::Options options = good;
    options.secret = secret;
    EXPECT_EQ(client::Client::Create(options).status().code(), StatusCode::kInvalidArgument);
  }
  client::Options options = good;
  options.certificate = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
  EXPECT_EQ(client::Client::Create(options).status().code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace muster::testing
