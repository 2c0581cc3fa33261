#include "common/log.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <thread>
#include <utility>
#include <vector>

#include "common/text.h"
#include "common/time.h"

namespace muster {
namespace {

// Catches what is logged in a pipe.
class LogTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(pipe2(pipe_, O_CLOEXEC), 0);
    SetLogDescriptor(pipe_[1]);
    SetLogLevel(LogLevel::kInfo);
  }
  void TearDown() override {
    SetLogDescriptor(2);
    close(pipe_[0]);
    if (pipe_[1] >= 0) close(pipe_[1]);
  }
  std::string Written() {
    close(pipe_[1]);
    pipe_[1] = -1;
    std::string out;
    char buffer[4096];
    for (ssize_t count; (count = read(pipe_[0], buffer, sizeof(buffer))) > 0;) {
      out.append(buffer, static_cast<std::size_t>(count));
    }
    return out;
  }
  int pipe_[2] = {-1, -1};
};

TEST_F(LogTest, LinesCarryPrefixAndLevel) {
  LogError("a");
  LogWarning("b");
  LogInfo("c\nd\n");
  LogDebug("hidden");
  SetLogLevel(LogLevel::kDebug);
  LogDebug("e\x1b[2J\r");
  EXPECT_EQ(Written(),
            "muster: error: a\nmuster: warning: b\nmuster: c\nmuster: d\n"
            "muster: debug: e\\x1b[2J\\x0d\n");
}

TEST_F(LogTest, LevelsHideWhatIsBelowThem) {
  SetLogLevel(LogLevel::kError);
  EXPECT_TRUE(LogShown(LogLevel::kError));
  EXPECT_FALSE(LogShown(LogLevel::kWarning));
  LogWarning("hidden");
  EXPECT_EQ(Written(), "");
  EXPECT_EQ(ParseLogLevel("debug").value(), LogLevel::kDebug);
  EXPECT_NE(ParseLogLevel("loud").status().message().find("\"loud\""), std::string::npos);
}

TEST_F(LogTest, LogChangedSaysAReasonOnce) {
  LogChanged changed;
  EXPECT_TRUE(changed.Say(LogLevel::kInfo, "no route"));
  EXPECT_FALSE(changed.Say(LogLevel::kInfo, "no route"));
  EXPECT_TRUE(changed.Say(LogLevel::kInfo, "refused"));
  changed.Clear();
  EXPECT_TRUE(changed.Say(LogLevel::kInfo, "refused"));
  EXPECT_EQ(Written(), "muster: no route\nmuster: refused\nmuster: refused\n");
}

TEST_F(LogTest, LinesOfManyThreadsStayWhole) {
  std::string all;
  std::thread reader([&] {
    char buffer[4096];
    for (ssize_t count; (count = read(pipe_[0], buffer, sizeof(buffer))) > 0;) {
      all.append(buffer, static_cast<std::size_t>(count));
    }
  });
  std::vector<std::thread> writers;
  for (char c = 'a'; c < 'e'; ++c) {
    writers.emplace_back([c] {
      for (int i = 0; i < 200; ++i) LogInfo(std::string(1000, c));
    });
  }
  for (std::thread& writer : writers) writer.join();
  close(pipe_[1]);
  pipe_[1] = -1;
  reader.join();
  std::vector<std::string_view> lines = Split(all, '\n');
  ASSERT_EQ(lines.size(), 801U);
  lines.pop_back();
  for (const std::string_view line : lines) {
    ASSERT_EQ(line.size(), 1008U);
    ASSERT_EQ(line.find_first_not_of(line.back(), 8), std::string_view::npos);
  }
}

TEST_F(LogTest, AReaderThatIsGoneOrStuckDoesNotStopTheCaller) {
  ASSERT_EQ(fcntl(pipe_[1], F_SETFL, O_NONBLOCK), 0);
  for (int i = 0; i < 17; ++i) LogInfo(std::string(4000, 'x'));  // more than the pipe holds
  SetLogDescriptor(-1);
  LogInfo("into nothing");
}

// A pipe blocks unless somebody has changed it: the host's stderr is like that.
TEST_F(LogTest, AStuckReaderOfABlockingPipeDelaysTheCallerOnceAndNotForEver) {
  signal(SIGPIPE, SIG_IGN);
  const TimePoint begin = SteadyNow();
  std::atomic<bool> done{false};
  std::thread watchdog([this, begin, &done] {
    while (!done && SteadyNow() - begin < std::chrono::seconds(20)) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    if (!done) close(std::exchange(pipe_[0], -1));  // wakes the writer
  });
  for (int i = 0; i < 30; ++i) LogInfo(std::string(4000, 'x'));
  done = true;
  watchdog.join();
  EXPECT_LT(SteadyNow() - begin, std::chrono::seconds(5));
  // Somebody reads again: lines come again.
  char buffer[1 << 16];
  ASSERT_GT(read(pipe_[0], buffer, sizeof(buffer)), 0);
  LogInfo("seen");
  const ssize_t count = read(pipe_[0], buffer, sizeof(buffer));
  ASSERT_GT(count, 0);
  EXPECT_TRUE(std::string_view(buffer, static_cast<std::size_t>(count)).ends_with("seen\n"));
}

}  // namespace
}  // namespace muster
