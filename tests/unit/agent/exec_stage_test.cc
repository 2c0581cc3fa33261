#include "launcher/agent/exec_stage.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::agent {
namespace {

TEST(ExecStage, ArgumentsComeBack) {
  ExecStage stage;
  stage.parent = 77;
  stage.node = "n1";
  stage.working_dir = "/w";
  stage.cpus = {0, 3, 64};
  stage.slurm_task = true;
  stage.program = {"python", "", "--", "-x"};
  const Result<ExecStage> out = ExecStageFromArguments(ToArguments(stage));
  ASSERT_TRUE(out.ok());
  EXPECT_EQ(out->parent, 77);
  EXPECT_EQ(out->cpus, stage.cpus);
  EXPECT_EQ(out->program, stage.program);
  EXPECT_TRUE(out->slurm_task);
  EXPECT_FALSE(ExecStageFromArguments({}).ok());
  EXPECT_FALSE(ExecStageFromArguments({"1", "n", "", "", "0"}).ok()) << "no program";
  EXPECT_FALSE(ExecStageFromArguments({"x", "n", "", "", "0", "ls"}).ok());
  EXPECT_FALSE(ExecStageFromArguments({"1", "n", "", "0,y", "0", "ls"}).ok());
}

TEST(ExecStage, FindsAsExecvpDoes) {
  EXPECT_EQ(*FindProgram("/bin/sh", "", "n1"), "/bin/sh");
  EXPECT_EQ(*FindProgram("sh", "/nothing:/bin", "n1"), "/bin/sh");
  const Result<std::string> missing = FindProgram("no-such-program", "/bin:/usr/bin", "n7");
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.status().code(), StatusCode::kNotFound);
  EXPECT_THAT(missing.status().message(), testing::HasSubstr("no-such-program"));
  EXPECT_THAT(missing.status().message(), testing::HasSubstr("n7"));
  EXPECT_THAT(missing.status().message(), testing::HasSubstr("/bin:/usr/bin"));
  EXPECT_EQ(FindProgram("/etc/passwd", "", "n1").status().code(), StatusCode::kPermissionDenied);
  EXPECT_EQ(FindProgram("/no/such", "", "n1").status().code(), StatusCode::kNotFound);
  EXPECT_FALSE(FindProgram("", "/bin", "n1").ok());
}

TEST(ExecStage, TheCpusOfThisProcess) {
  const std::vector<int> cpus = AllowedCpus();
  cpu_set_t set;
  ASSERT_EQ(sched_getaffinity(0, sizeof(set), &set), 0);
  EXPECT_EQ(cpus.size(), static_cast<std::size_t>(CPU_COUNT(&set)));
}

}  // namespace
}  // namespace muster::agent
