#include "rendezvousd/server/recovery.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "rendezvousd/server/event_codec.h"

namespace muster::server {
namespace {

class RecoveryTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string folder = ::testing::TempDir() + "muster-recovery-XXXXXX";
    ASSERT_NE(mkdtemp(folder.data()), nullptr);
    folder_ = folder;
    path_ = folder_ + "/journal";
    config_.run_id = "run";
    config_.version = "1";
    config_.nodes = {"n0"};
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  static core::Event Hello(const std::string& run_id) {
    protocol::Hello hello;
    hello.version = "1";
    hello.run_id = run_id;
    hello.address = "10.0.0.5";
    return core::AgentMessage{{Agent(), 0, hello}};
  }
  static protocol::AgentId Agent() { return {{"n0", 0, 0}, 9}; }
  static core::Event Set(core::Token token) {
    protocol::KeyRequest request;
    request.id = {Agent(), token};
    request.of_run = true;
    request.operation = protocol::KeyOperation::kSet;
    request.key = "k";
    return core::KeyCall{token, request};
  }
  void Write(const std::vector<core::Event>& events) {
    auto recovered = Recover(path_, config_).value();
    for (const core::Event& event : events) {
      recovered.journal->Add(SteadyNow(), EncodeEvent(event));
    }
    ASSERT_TRUE(recovered.journal->Commit().ok());
  }

  std::string folder_;
  std::string path_;
  protocol::Config config_;
};

TEST_F(RecoveryTest, ANewJournalIsNoRestart) {
  const auto recovered = Recover(path_, config_).value();
  EXPECT_FALSE(recovered.restarted);
  EXPECT_TRUE(recovered.machine->Present().empty());
}

TEST_F(RecoveryTest, StepsWhatIsThere) {
  Write({Hello("run"), Set(41)});
  const auto recovered = Recover(path_, config_).value();
  EXPECT_TRUE(recovered.restarted);
  EXPECT_EQ(recovered.next_token, 42U);
  EXPECT_EQ(recovered.addresses.at(Agent()), "10.0.0.5");
  EXPECT_EQ(recovered.machine->Present(), std::vector<protocol::AgentId>{Agent()});
}

TEST_F(RecoveryTest, ARecordThatKillsThreeDaemonsIsSetAside) {
  Write({Hello("run"), Set(41)});
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(Recover(path_, config_).value().set_aside.empty());
    CrashMark::Open(path_ + ".crash").value()->Enter(0);  // as a daemon that dies there
  }
  const auto recovered = Recover(path_, config_).value();
  EXPECT_EQ(recovered.set_aside, std::vector<std::uint64_t>{0});
  EXPECT_TRUE(recovered.machine->Present().empty()) << "the hello was left out";
}

TEST_F(RecoveryTest, ARecordThatIsNoEventIsDamage) {
  {
    auto recovered = Recover(path_, config_).value();
    recovered.journal->Add(SteadyNow(), "no event");
    ASSERT_TRUE(recovered.journal->Commit().ok());
  }
  EXPECT_EQ(Recover(path_, config_).status().code(), StatusCode::kDataLoss);
}

TEST_F(RecoveryTest, PrintReplayTellsEachRecord) {
  Write({Hello("run"), Set(41)});
  std::vector<std::string> lines;
  ASSERT_TRUE(PrintReplay(path_, [&](const std::string& line) { lines.push_back(line); }).ok());
  ASSERT_GE(lines.size(), 2U);
  EXPECT_NE(lines[0].find("n0/0.0 said hello"), std::string::npos) << lines[0];
  EXPECT_NE(lines.back().find("key \"k\""), std::string::npos) << lines.back();
}

}  // namespace
}  // namespace muster::server
