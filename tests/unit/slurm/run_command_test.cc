#include "launcher/slurm/run_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "common/text.h"

namespace muster::slurm {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;

Command Shell(const std::string& script) {
  Command command;
  command.arguments = {"/bin/sh", "-c", script};
  command.environment = {{"PATH", "/usr/bin:/bin"}, {"X", "1"}};
  return command;
}

TEST(RunCommandTest, GivesOutputErrorsAndExitCode) {
  const CommandResult result = RunCommand(Shell("echo out; echo err >&2; exit 3")).value();
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_EQ(result.output, "out\n");
  EXPECT_EQ(result.error_output, "err\n");
  EXPECT_EQ(RunCommand(Shell("kill -9 $$"))->exit_code, 137);
}

TEST(RunCommandTest, PassesInputDirectoryAndOnlyTheGivenEnvironment) {
  Command command = Shell("cat; pwd; echo $X $HOME");
  command.input = std::string(300000, 'i');
  command.directory = "/usr";
  EXPECT_EQ(RunCommand(command)->output, std::string(300000, 'i') + "/usr\n1\n");
  // A child that does not read its input is no error, and no SIGPIPE for us.
  command = Shell("echo done");
  command.input = std::string(300000, 'i');
  EXPECT_EQ(RunCommand(command)->output, "done\n");
}

TEST(RunCommandTest, EndsWhatOutlivesTheDeadlineWithItsChildren) {
  Command command = Shell("echo $$; sleep 100 & sleep 100; true");
  command.deadline = milliseconds(300);
  const TimePoint start = SteadyNow();
  const auto result = RunCommand(command);
  EXPECT_EQ(result.status().code(), StatusCode::kDeadlineExceeded);
  EXPECT_THAT(result.status().message(), HasSubstr("may have taken effect"));
  EXPECT_LT(SteadyNow() - start, seconds(20));
}

TEST(RunCommandTest, AChildThatLeftItsOutputsIsStillBounded) {
  Command command = Shell("exec >&- 2>&-; sleep 100; true");
  command.deadline = milliseconds(300);
  EXPECT_EQ(RunCommand(command).status().code(), StatusCode::kDeadlineExceeded);
}

TEST(RunCommandTest, TheJobsTermDoesNotEndIt) {
  // Slurm signals whole trees; the child sends itself what Slurm would.
  EXPECT_EQ(RunCommand(Shell("kill -TERM $$; kill -HUP $$; echo alive"))->output, "alive\n");
}

TEST(RunCommandTest, ItHasASessionOfItsOwn) {
  const CommandResult result = RunCommand(Shell("cut -d' ' -f6 /proc/$$/stat; echo $$")).value();
  const std::vector<std::string_view> lines = Split(result.output, '\n');
  ASSERT_EQ(lines.size(), 3U);
  EXPECT_EQ(lines[0], lines[1]);
}

TEST(RunCommandTest, TooMuchOutputIsRefused) {
  Command command = Shell("yes 0123456789012345678901234567890123456789");
  command.deadline = seconds(100);
  const auto result = RunCommand(command);
  EXPECT_EQ(result.status().code(), StatusCode::kResourceExhausted);
}

TEST(RunCommandTest, AProgramThatIsNotThereIsNotFound) {
  Command command;
  command.arguments = {"/nonexistent/scontrol"};
  EXPECT_EQ(RunCommand(command).status().code(), StatusCode::kNotFound);
}

TEST(RunCommandTest, ManyAtOnceLeaveNoDescriptorAndNoChild) {
  const auto descriptors = [] {
    const std::filesystem::directory_iterator folder("/proc/self/fd");
    return std::distance(begin(folder), end(folder));
  };
  const auto before = descriptors();
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([] {
      for (int k = 0; k < 10; ++k) EXPECT_EQ(RunCommand(Shell("echo x"))->output, "x\n");
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(descriptors(), before);
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1);
}

TEST(FindToolTest, SearchesPathThenTheCommonFolders) {
  char name[] = "/tmp/muster_tool_XXXXXX";
  ASSERT_NE(mkdtemp(name), nullptr);
  const std::string tool = std::string(name) + "/scontrol";
  std::ofstream(tool) << "#!/bin/sh\n";
  chmod(tool.c_str(), 0700);
  EXPECT_EQ(FindTool("scontrol", {{"PATH", Concat("relative::", name)}}, "").value(), tool);
  EXPECT_EQ(FindTool("scontrol", {}, name).value(), tool);
  EXPECT_EQ(FindTool("env", {}, "").value(), "/usr/bin/env");
  const auto missing = FindTool("no-such-tool", {{"PATH", "/somewhere"}}, "");
  EXPECT_EQ(missing.status().code(), StatusCode::kNotFound);
  EXPECT_THAT(missing.status().message(), HasSubstr("/somewhere"));
  unlink(tool.c_str());
  rmdir(name);
}

}  // namespace
}  // namespace muster::slurm
