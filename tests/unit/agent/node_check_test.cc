#include "launcher/agent/node_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "launcher/agent/exec_stage.h"
#include "launcher/agent/files.h"

namespace muster::agent {
namespace {

using std::chrono::milliseconds;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class NodeCheckTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = (std::filesystem::temp_directory_path() / "muster-check-XXXXXX").string();
    ASSERT_NE(mkdtemp(folder_.data()), nullptr);
    std::filesystem::create_directories(folder_ + "/state/logs");
    Write("state/.shared-abc", "abc\n");
    check_.node = "n7";
    check_.process = "0";
    check_.working_dir = folder_;
    check_.program = "/bin/sh";
    check_.path = "/usr/bin:/bin";
    check_.state_dir = folder_ + "/state";
    check_.state_token = "abc";
    check_.log_dir = folder_ + "/state/logs";
    check_.token_patience = milliseconds(200);
  }
  void TearDown() override {
    // A check that was given up may still write and remove its probe while we remove its folder.
    std::error_code error;
    for (int i = 0; i < 100; ++i) {
      std::filesystem::remove_all(folder_, error);
      if (!std::filesystem::exists(folder_, error)) return;
      std::this_thread::sleep_for(milliseconds(20));
    }
    FAIL() << folder_ << " cannot be removed: " << error.message();
  }

  void Write(const std::string& name, const std::string& text, mode_t mode = 0600) {
    const std::string path = folder_ + "/" + name;
    std::ofstream(path) << text;
    chmod(path.c_str(), mode);
  }
  void ExpectProblem(int code, const std::vector<std::string>& parts) {
    const NodeFindings found = CheckNode(check_);
    ASSERT_TRUE(found.problem);
    EXPECT_EQ(found.problem->exit_code, code) << found.problem->text;
    for (const std::string& part : parts) EXPECT_THAT(found.problem->text, HasSubstr(part));
    EXPECT_THAT(found.problem->text, HasSubstr("n7"));
    EXPECT_THAT(found.problem->text, testing::Not(HasSubstr("\n")));
  }
  void ExpectFine() {
    const NodeFindings found = CheckNode(check_);
    EXPECT_FALSE(found.problem) << found.problem->text;
    EXPECT_THAT(found.warnings, IsEmpty());
  }

  std::string folder_;
  NodeCheck check_;
};

TEST_F(NodeCheckTest, AllIsWellAndNothingIsLeft) {
  ExpectFine();
  EXPECT_TRUE(std::filesystem::is_empty(folder_ + "/state/logs"));
}

TEST(NodeCheckOf, LooksWhereTheWorkerWill) {
  Options options;
  options.program = {"sh"};
  EXPECT_EQ(NodeCheckOf(options, {}, Place()).path, kDefaultPath);
  EXPECT_EQ(NodeCheckOf(options, {{"PATH", "/a"}}, Place()).path, "/a");
  EXPECT_EQ(NodeCheckOf(options, {{"PATH", ""}}, Place()).path, "");
  options.set_environment["PATH"] = "/b";
  EXPECT_EQ(NodeCheckOf(options, {{"PATH", "/a"}}, Place()).path, "/b");
}

TEST_F(NodeCheckTest, AMissingProgramIsNamed) {
  check_.program = "/no/such/program";
  ExpectProblem(127, {"/no/such/program"});
  check_.program = "no-such-program";
  ExpectProblem(127, {"no-such-program", "/usr/bin:/bin"});
  check_.program = folder_;
  ExpectProblem(126, {folder_, "not an executable file"});
  Write("data", "x");
  check_.program = folder_ + "/data";
  ExpectProblem(126, {"data", "chmod +x"});
}

TEST_F(NodeCheckTest, RelativeNamesAreOfTheWorkingFolder) {
  Write("here", "#!/bin/sh\n", 0700);
  check_.program = "./here";
  ExpectFine();
  check_.program = "here";
  check_.path = "/bin:.";
  ExpectFine();
  check_.path = "/bin";
  ExpectProblem(127, {"here"});
}

TEST_F(NodeCheckTest, TheInterpreterOfAScriptIsThereToo) {
  const auto script = [this](const std::string& line) {
    Write("script", line + "\n", 0700);
    check_.program = folder_ + "/script";
  };
  for (const char* line : {"#!/bin/sh", "#! /bin/sh -e", "#!/usr/bin/env sh",
                           "#!/usr/bin/env -S sh -e", "#!/usr/bin/env -i sh", "echo", "#!", ""}) {
    SCOPED_TRACE(line);
    script(line);
    ExpectFine();
  }
  script("#!/opt/python/bin/python3 -u");
  ExpectProblem(127, {"script", "/opt/python/bin/python3"});
  script("#!/usr/bin/env no-such-python");
  ExpectProblem(127, {"script", "no-such-python", "PATH"});
  script("#!/usr/bin/env -S no-such-python -u");
  ExpectProblem(127, {"no-such-python"});
  script("#!/bin/sh\r");  // from another system
  ExpectProblem(127, {"/bin/sh\\x0d"});
}

TEST_F(NodeCheckTest, AWorkingFolderThatIsNotThere) {
  check_.working_dir = folder_ + "/gone";
  ExpectProblem(126, {"/gone", "working folder"});
}

TEST_F(NodeCheckTest, AnotherStateFolderOfThatName) {
  check_.state_token = "other";
  ExpectProblem(64, {folder_ + "/state", "--state-dir"});
  check_.state_dir = folder_ + "/none";
  ExpectProblem(64, {folder_ + "/none", "--state-dir"});
  check_.state_token.clear();
  ExpectFine();
}

TEST_F(NodeCheckTest, ATokenThatIsSeenLateIsSeen) {
  check_.state_token = "late";
  check_.token_patience = std::chrono::seconds(20);
  std::thread writer([this] {
    std::this_thread::sleep_for(milliseconds(150));
    Write("state/.shared-late", "late\n");
  });
  ExpectFine();
  writer.join();
}

TEST_F(NodeCheckTest, ALogFolderThatCannotBeWritten) {
  check_.log_dir = folder_ + "/state/none";
  ExpectProblem(64, {folder_ + "/state/none", "--state-dir"});
  check_.log_dir = "/proc/nothing";
  ExpectProblem(64, {"/proc/nothing", "--log-dir"});
}

TEST_F(NodeCheckTest, OnlyWhatIsCertainIsAProblem) {
  for (const int error : {ENOSPC, EIO, EDQUOT, ESTALE, ETIMEDOUT}) EXPECT_FALSE(IsCertain(error));
  for (const int error : {ENOENT, EACCES, EROFS, ENOTDIR}) EXPECT_TRUE(IsCertain(error));
}

// Opening a pipe that nobody writes to hangs, as a dead file server does.
TEST_F(NodeCheckTest, AStalledFolderIsAWarningInTime) {
  std::filesystem::remove(folder_ + "/state/.shared-abc");
  ASSERT_EQ(mkfifo((folder_ + "/state/.shared-abc").c_str(), 0600), 0);
  const TimePoint start = SteadyNow();
  const NodeFindings found = CheckNodeWithin(check_, milliseconds(200), {});
  EXPECT_LT(SteadyNow() - start, std::chrono::seconds(5));
  EXPECT_FALSE(found.problem);
  EXPECT_THAT(found.warnings, ElementsAre(AllOf(HasSubstr("n7"), HasSubstr(folder_ + "/state"))));
  std::ofstream(folder_ + "/state/.shared-abc") << "abc\n";  // lets the thread end
}

TEST_F(NodeCheckTest, ASignalCutsTheWaitShort) {
  std::filesystem::remove(folder_ + "/state/.shared-abc");
  ASSERT_EQ(mkfifo((folder_ + "/state/.shared-abc").c_str(), 0600), 0);
  const Descriptor interrupt(eventfd(1, EFD_CLOEXEC));
  const TimePoint start = SteadyNow();
  EXPECT_FALSE(CheckNodeWithin(check_, std::chrono::minutes(10), {interrupt.get()}).problem);
  EXPECT_LT(SteadyNow() - start, std::chrono::minutes(1));
  std::ofstream(folder_ + "/state/.shared-abc") << "abc\n";
}

TEST_F(NodeCheckTest, WithinTheLimitItFindsTheSame) {
  check_.program = "/no/such/program";
  const NodeFindings found = CheckNodeWithin(check_, std::chrono::minutes(1), {});
  ASSERT_TRUE(found.problem);
  EXPECT_EQ(found.problem->exit_code, 127);
}

}  // namespace
}  // namespace muster::agent
