#include "launcher/cli/submit_words.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

config::CommandLine Parsed(const std::vector<std::string>& words) {
  auto line = config::ParseCommandLine(config::kSubmit, words, config::Settings(), SbatchShapes());
  EXPECT_TRUE(line.ok()) << line.status().ToString();
  return line.ok() ? *line : config::CommandLine();
}

TEST(SubmitWords, SbatchsOptionsPassAsTheyAre) {
  const auto line = Parsed({"-p", "gpu", "--time=1:00", "--exclusive", "-t5", "--gpus-per-node=8",
                            "-o", "logs/%j.out", "-Q", "job.sh", "-p", "x"});
  EXPECT_THAT(SbatchWords(line),
              ElementsAre("--partition=gpu", "--time=1:00", "--exclusive", "--time=5",
                          "--gpus-per-node=8", "--output=logs/%j.out", "--quiet"));
  EXPECT_THAT(line.program, ElementsAre("job.sh", "-p", "x"));
  EXPECT_FALSE(line.dashes);
}

TEST(SubmitWords, TheJobHasTheWorldsNodesAndTheSpares) {
  EXPECT_THAT(SbatchWords(Parsed({"-N", "4", "--", "x"})), ElementsAre("--nodes=4"));
  EXPECT_THAT(SbatchWords(Parsed({"-N4", "--spares=1", "--", "x"})), ElementsAre("--nodes=5"));
  EXPECT_THAT(SbatchWords(Parsed({"-N2:4", "--spares=1", "--", "x"})), ElementsAre("--nodes=3-5"));
  EXPECT_THAT(SbatchWords(Parsed({"-N2-4", "--", "x"})), ElementsAre("--nodes=2-4"));
  EXPECT_THAT(SbatchWords(Parsed({"--", "x"})), IsEmpty());
}

TEST(SubmitWords, RunGetsWhatWasGivenAndNoMore) {
  const auto line = Parsed({"-N4", "--spares=1", "--env", "A=b c", "--env=D", "--time=5",
                            "--dry-run", "--", "python", "train.py", "-N"});
  EXPECT_THAT(
      RunWords(line, "/m/muster"),
      ElementsAre("/m/muster", "run", "--nodes=4", "--spares=1", "--env=A=b c", "--env=D", "--"));
  EXPECT_THAT(line.program, ElementsAre("python", "train.py", "-N"));
}

TEST(SubmitWords, AScriptsRunsGetItByTheirVariables) {
  const auto line = Parsed({"-N4", "--spares=1", "--srun=-a", "--srun=-b", "job.sh"});
  EXPECT_EQ(RunVariables(line), (std::map<std::string, std::string>{{"MUSTER_SPARES", "1"},
                                                                    {"MUSTER_SRUN", "-a\n-b"}}));
}

TEST(SubmitWords, AMistypedOptionIsNotSwallowed) {
  const auto line = config::ParseCommandLine(config::kSubmit, {"--partitoin=x", "--", "x"},
                                             config::Settings(), SbatchShapes());
  EXPECT_FALSE(line.ok());
}

}  // namespace
}  // namespace muster::cli
