#include "launcher/host/daemon_keeper.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

namespace muster::host {
namespace {

// A shell script plays the daemon.
class DaemonKeeperTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = (std::filesystem::temp_directory_path() / "muster-keeper-XXXXXX").string();
    ASSERT_NE(mkdtemp(folder_.data()), nullptr);
    auto listener = Listen("127.0.0.1");
    ASSERT_TRUE(listener.ok()) << listener.status().ToString();
    listener_ = std::move(listener).value();
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  void Write(const std::string& script) {
    const std::string path = folder_ + "/daemon";
    std::ofstream(path) << "#!/bin/sh\necho start >> " << folder_ << "/starts\n" << script << "\n";
    chmod(path.c_str(), 0700);
  }
  int Starts() const {
    std::ifstream in(folder_ + "/starts");
    int count = 0;
    for (std::string word; in >> word;) ++count;
    return count;
  }
  std::unique_ptr<DaemonKeeper> Keeper() {
    protocol::StartOptions options;
    options.config.run_id = "r";
    options.config.version = "1";
    auto keeper = std::make_unique<DaemonKeeper>(&loop_, folder_ + "/daemon",
                                                 std::vector<std::string>{"PATH=/usr/bin:/bin"},
                                                 options, &listener_,
                                                 DaemonKeeper::Events{
                                                     .given_up =
                                                         [this](std::string reason) {
                                                           given_up_ = std::move(reason);
                                                           loop_.Stop();
                                                         },
                                                     .stopped =
                                                         [this] {
                                                           stopped_ = true;
                                                           loop_.Stop();
                                                         },
                                                 });
    EXPECT_TRUE(keeper->Start().ok());
    return keeper;
  }

  std::string folder_;
  agent::EventLoop loop_;
  Listener listener_;
  std::optional<std::string> given_up_;
  bool stopped_ = false;
};

TEST_F(DaemonKeeperTest, StartsAgainAndGivesUpAtTheThirdDeath) {
  Write("exit 70");
  const auto keeper = Keeper();
  ASSERT_TRUE(loop_.Run().ok());
  ASSERT_TRUE(given_up_.has_value());
  EXPECT_NE(given_up_->find("3 times"), std::string::npos) << *given_up_;
  EXPECT_NE(given_up_->find("exit code 70"), std::string::npos);
  EXPECT_EQ(Starts(), 3);
}

TEST_F(DaemonKeeperTest, DoesNotRepeatWhatWouldEndSoAgain) {
  Write("exit 64");
  const auto keeper = Keeper();
  ASSERT_TRUE(loop_.Run().ok());
  EXPECT_TRUE(given_up_.has_value());
  EXPECT_EQ(Starts(), 1);
}

TEST_F(DaemonKeeperTest, GivesOptionsAndTheListeningSocketByDescriptor) {
  Write("grep -q '\"run_id\"' <&$2 && [ -S /proc/self/fd/" +
        std::to_string(listener_.socket.get()) + " ] && exit 65; exit 70");
  const auto keeper = Keeper();
  ASSERT_TRUE(loop_.Run().ok());
  EXPECT_EQ(Starts(), 1) << "65: all was there";
}

TEST_F(DaemonKeeperTest, StopWaitsThenTerminates) {
  Write("exec sleep 60");
  const auto keeper = Keeper();
  keeper->Stop(std::chrono::milliseconds(50));
  ASSERT_TRUE(loop_.Run().ok());
  EXPECT_TRUE(stopped_);
  EXPECT_FALSE(given_up_.has_value());
  EXPECT_FALSE(keeper->running());
}

TEST_F(DaemonKeeperTest, AnExpectedEndIsNoDeath) {
  Write("exit 0");
  const auto keeper = Keeper();
  keeper->ExpectEnd();
  loop_.After(std::chrono::milliseconds(300), [&] { keeper->Stop(Duration::zero()); });
  ASSERT_TRUE(loop_.Run().ok());
  EXPECT_TRUE(stopped_);
  EXPECT_EQ(Starts(), 1);
}

TEST_F(DaemonKeeperTest, AMissingDaemonIsNamed) {
  const auto found = FindDaemon("/no/such/daemon");
  EXPECT_EQ(found.status().code(), StatusCode::kNotFound);
  EXPECT_NE(found.status().message().find("MUSTER_RENDEZVOUSD"), std::string::npos);
  EXPECT_EQ(FindDaemon("/bin/sh").value(), "/bin/sh");
}

}  // namespace
}  // namespace muster::host
