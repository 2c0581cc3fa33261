#include "launcher/host/state_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "launcher/agent/node_check.h"

namespace muster::host {
namespace {

using ::testing::HasSubstr;

class StateFolder : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = (std::filesystem::temp_directory_path() / "muster-state-XXXXXX").string();
    ASSERT_NE(mkdtemp(folder_.data()), nullptr);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  static unsigned ModeOf(const std::string& path) {
    struct stat facts {};
    return stat(path.c_str(), &facts) == 0 ? facts.st_mode & 07777U : 0;
  }
  std::string folder_;
};

TEST_F(StateFolder, BaseFollowsOptionThenJobThenFolder) {
  slurm::Allocation job;
  job.place = slurm::Place::kBatch;
  job.job.id = 12;
  job.submit_dir = "/sub";
  EXPECT_EQ(StateBase("/given", job, "/cwd", "t"), "/given");
  EXPECT_EQ(StateBase("given/../x", job, "/cwd", "t"), "/cwd/x");
  EXPECT_EQ(StateBase("", job, "/cwd", "t"), "/sub/.muster/12");
  job.submit_dir = "";
  EXPECT_EQ(StateBase("", job, "/cwd", "t"), "/cwd/.muster/12");
  EXPECT_EQ(StateBase("", {}, "/cwd", "t"), "/cwd/.muster/t");
}

TEST_F(StateFolder, IsMadePrivateAndProven) {
  const std::string path = folder_ + "/a/b";
  ASSERT_TRUE(PrepareFolder(path).ok());
  EXPECT_EQ(ModeOf(path), 0700U);
  EXPECT_TRUE(std::filesystem::is_empty(path)) << "the probe is gone";
}

TEST_F(StateFolder, ATokenIsNewEachTimeAndAlone) {
  const auto files = [this] {
    return std::distance(std::filesystem::directory_iterator(folder_), {});
  };
  const Result<std::string> first = WriteSharedToken(folder_);
  ASSERT_TRUE(first.ok());
  EXPECT_TRUE(std::filesystem::exists(agent::TokenFile(folder_, *first)));
  const Result<std::string> second = WriteSharedToken(folder_);
  ASSERT_TRUE(second.ok());
  EXPECT_NE(*first, *second);
  EXPECT_TRUE(std::filesystem::exists(agent::TokenFile(folder_, *second)));
  EXPECT_EQ(files(), 1);
  RemoveSharedToken(folder_);
  EXPECT_EQ(files(), 0);
  RemoveSharedToken(folder_ + "/none");
}

TEST_F(StateFolder, WhatCannotBeWrittenIsNamedWithTheOption) {
  for (const std::string& path : {std::string("/proc/nothing"), folder_ + "/file/below"}) {
    std::ofstream(folder_ + "/file") << "x";
    const Status status = PrepareFolder(path);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(status.message(), HasSubstr(path));
    EXPECT_THAT(status.message(), HasSubstr("--state-dir"));
  }
}

TEST_F(StateFolder, TheNewestVerdictIsFoundByItsNumber) {
  const RunFiles files{folder_};
  ASSERT_TRUE(NewestVerdict(files).ok());
  EXPECT_FALSE(NewestVerdict(files)->has_value());
  protocol::Verdict verdict;
  verdict.outcome = protocol::Outcome::kFailed;
  verdict.exit_code = 7;
  verdict.blame = {protocol::Cause::kCode, "n2", 3, 7, "rank 3 on n2 ended with exit code 7"};
  ASSERT_TRUE(WriteVerdict(files, 9, verdict).ok());
  verdict.outcome = protocol::Outcome::kSucceeded;
  verdict.exit_code = 0;
  ASSERT_TRUE(WriteVerdict(files, 10, verdict).ok());
  std::ofstream(folder_ + "/verdict-x.json") << "no number";
  auto newest = NewestVerdict(files);
  ASSERT_TRUE(newest.ok() && newest->has_value());
  EXPECT_EQ((*newest)->attempt, 10U);
  EXPECT_EQ((*newest)->verdict.outcome, protocol::Outcome::kSucceeded);
  EXPECT_EQ((*newest)->verdict.blame.cause, protocol::Cause::kCode);
  EXPECT_EQ((*newest)->verdict.blame.rank, 3);
  std::ofstream(folder_ + "/verdict-11.json") << "{\"verdict\": {\"outcome\": 5}}";
  EXPECT_EQ(NewestVerdict(files).status().code(), StatusCode::kDataLoss);
}

TEST_F(StateFolder, OperatorsAccessIsForTheUserAlone) {
  const RunFiles files{folder_};
  EXPECT_EQ(ReadOperatorAccess(files).status().code(), StatusCode::kNotFound);
  OperatorAccess access{{"10.0.0.1:1"}, "-----BEGIN", "secret", "n1", 17, 2};
  ASSERT_TRUE(WriteOperatorAccess(files, access).ok());
  EXPECT_EQ(ModeOf(files.OperatorFile()), 0600U);
  const auto read = ReadOperatorAccess(files);
  ASSERT_TRUE(read.ok()) << read.status().ToString();
  EXPECT_EQ(read->endpoints, access.endpoints);
  EXPECT_EQ(read->secret, "secret");
  EXPECT_EQ(read->pid, 17);
  EXPECT_EQ(read->attempt, 2U);
}

TEST_F(StateFolder, TheUsersOwnExclusionIsKeptFromTheFirstStart) {
  EXPECT_FALSE(ReadUserExcluded(folder_, "12").has_value());
  ASSERT_TRUE(KeepUserExcluded(folder_, "12", {"n9"}).ok());
  ASSERT_TRUE(KeepUserExcluded(folder_, "12", {"n9", "n3"}).ok());
  EXPECT_EQ(ReadUserExcluded(folder_, "12"), std::vector<std::string>{"n9"});
  std::ofstream(folder_ + "/excluded-13.json") << "[]";
  EXPECT_FALSE(ReadUserExcluded(folder_, "13").has_value());
}

TEST_F(StateFolder, PointersStandWhereTheUserKeepsState) {
  EXPECT_EQ(PointerFolder({{"HOME", "/h"}}), "/h/.local/state/muster/jobs");
  EXPECT_EQ(PointerFolder({{"HOME", "/h"}, {"XDG_STATE_HOME", "/s"}}), "/s/muster/jobs");
  EXPECT_EQ(PointerFolder({}), "");
  ASSERT_TRUE(WritePointer(folder_ + "/p", "12", "/base").ok());
  std::string text;
  std::ifstream(folder_ + "/p/12") >> text;
  EXPECT_EQ(text, "/base");
  EXPECT_TRUE(WritePointer("", "12", "/base").ok());
}

}  // namespace
}  // namespace muster::host
