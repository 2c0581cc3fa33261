#include "launcher/cli/find_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launcher/cli/jobs_report.h"
#include "launcher/host/state_folder.h"
#include "tests/unit/cli/state_folder_test.h"

namespace muster::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

class FindRun : public StateFolderTest {
 protected:
  // Another job's base with one run; a later one is newer.
  std::string MakeJob(const std::string& job) {
    const std::string base = folder_ + "/bases/" + job;
    fs::create_directories(base + "/run1");
    std::ofstream(base + "/run1/spec.json") << "{}";
    std::ofstream(base + "/runs.json") << "";
    Point(job, base);
    return base;
  }
  void Point(const std::string& job, const std::string& base) {
    const std::string pointers = host::PointerFolder(environment_);
    EXPECT_TRUE(host::WritePointer(pointers, job, base).ok());
    fs::last_write_time(pointers + "/" + job,
                        fs::file_time_type::clock::now() + std::chrono::seconds(++clock_));
  }
  // As its host writes it, on a machine that is not this one.
  void Live(const std::string& run, std::uint32_t attempt) {
    const host::OperatorAccess access{{"127.0.0.1:1"}, "no certificate", "00", "n1", 1, attempt};
    EXPECT_TRUE(host::WriteOperatorAccess({run}, access).ok());
  }
  int clock_ = 0;
};

TEST_F(FindRun, AJobIsFoundByPointerFolderAndPath) {
  EXPECT_EQ(FindBase("12", "", environment_, folder_).value(), base_);
  EXPECT_EQ(FindBase(".muster/12", "", environment_, folder_).value(), base_);
  EXPECT_EQ(FindBase(base_, "", environment_, "/").value(), base_);
  const auto none = FindBase("12", "", environment_, "/");
  EXPECT_EQ(none.status().code(), StatusCode::kNotFound);
  EXPECT_THAT(none.status().message(), HasSubstr("\"12\""));
  EXPECT_FALSE(FindBase("", "", environment_, "/").ok());
  ASSERT_TRUE(host::WritePointer(host::PointerFolder(environment_), "12", base_).ok());
  EXPECT_EQ(FindBase("12", "", environment_, "/").value(), base_);
  EXPECT_EQ(FindBase("", "", environment_, "/").value(), base_);
  environment_["SLURM_JOB_ID"] = "12";
  EXPECT_EQ(FindBase("", "", environment_, "/").value(), base_);
}

TEST_F(FindRun, WithoutAJobTheOnlyRunningOneElseTheNewest) {
  const std::string old = MakeJob("20");
  const std::string middle = MakeJob("21");
  const std::string newest = MakeJob("22");
  EXPECT_EQ(FindBase("", "", environment_, "/").value(), newest);
  Live(old + "/run1", 0);
  EXPECT_EQ(FindBase("", "", environment_, "/").value(), old);
  Live(middle + "/run1", 0);
  EXPECT_EQ(FindBase("", "", environment_, "/").value(), newest);
}

TEST_F(FindRun, ARunLooksRunningUntilItsVerdict) {
  const std::string run = base_ + "/run1";
  EXPECT_FALSE(LooksRunning(run));
  Live(run, 1);
  protocol::Verdict verdict;
  verdict.outcome = protocol::Outcome::kGoesOnLater;
  ASSERT_TRUE(host::WriteVerdict({run}, 0, verdict).ok());
  EXPECT_TRUE(LooksRunning(run));
  ASSERT_TRUE(host::WriteVerdict({run}, 1, verdict).ok());
  EXPECT_FALSE(LooksRunning(run));
}

TEST_F(FindRun, RunsAreChosenByName) {
  MakeRun("left");
  EXPECT_EQ(RunFolders(base_)->size(), 2U);
  EXPECT_THAT(*RunFolders(base_, "left"), ElementsAre(base_ + "/left"));
  EXPECT_THAT(*RunFolders(base_ + "/left/"), ElementsAre(base_ + "/left"));
  const auto none = RunFolders(base_, "right");
  EXPECT_THAT(none.status().message(), HasSubstr("is named \"right\"; there is left, run1"));
  EXPECT_THAT(RunFolders(folder_).status().message(), HasSubstr("no run has started in"));
}

TEST_F(FindRun, JobsAreListedNewestFirstAndStalePointersNamed) {
  Point("12", base_);
  const std::string gone = MakeJob("13");
  MakeJob("14");
  fs::remove_all(gone);
  Point("15", "");
  protocol::Verdict verdict;
  verdict.outcome = protocol::Outcome::kFailed;
  verdict.exit_code = 7;
  verdict.blame.text = "rank 2 on n2 exited with code 7";
  ASSERT_TRUE(host::WriteVerdict({base_ + "/run1"}, 0, verdict).ok());
  const auto jobs = ReadJobs(environment_);
  std::vector<std::string> seen;
  for (const JobReport& job : jobs) seen.push_back(job.job.job + " " + job.state);
  EXPECT_THAT(seen, ElementsAre("15 gone", "14 unknown", "13 gone", "12 failed"));
  const std::string text = JobsText(jobs);
  EXPECT_THAT(text, HasSubstr("its pointer is damaged"));
  EXPECT_THAT(text, HasSubstr(gone + "\n    its state folder is not there any more"));
  EXPECT_THAT(text, HasSubstr("    run1: failed, exit code 7: rank 2 on n2"));
  EXPECT_EQ(JobsJson(jobs).size(), 4U);
  environment_["XDG_STATE_HOME"] = folder_ + "/nowhere";
  EXPECT_TRUE(ReadJobs(environment_).empty());
}

}  // namespace
}  // namespace muster::cli
