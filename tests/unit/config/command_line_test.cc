#include "launcher/config/command_line.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "launcher/config/run_options.h"

namespace muster::config {
namespace {

Result<CommandLine> ParseRun(const std::vector<std::string>& words) {
  return ParseCommandLine(kRun, words, Settings());
}

TEST(CommandLine, GivesTypedValues) {
  const Result<CommandLine> line = ParseRun({"-N2:4",
                                             "--spares",
                                             "1",
                                             "--workers-per-node=8",
                                             "--name",
                                             "night-1",
                                             "--lease",
                                             "2s",
                                             "--srun",
                                             "--exclusive",
                                             "--srun=-w n1",
                                             "--env",
                                             "A=b=c",
                                             "--env=B",
                                             "--keep-env",
                                             "MASTER_ADDR",
                                             "--again",
                                             "--show-output",
                                             "all",
                                             "python",
                                             "train.py",
                                             "--lease",
                                             "x"});
  ASSERT_TRUE(line.ok()) << line.status().ToString();
  const RunOptions run = ToRunOptions(line->settings);
  EXPECT_EQ(run.nodes, (NodeRange{2, 4}));
  EXPECT_EQ(run.spares, 1);
  EXPECT_EQ(run.workers_per_node, 8);
  EXPECT_EQ(run.name, "night-1");
  EXPECT_EQ(run.lease, std::chrono::seconds(2));
  EXPECT_EQ(run.srun, (std::vector<std::string>{"--exclusive", "-w n1"}));
  EXPECT_EQ(run.environment, (std::vector<std::string>{"A=b=c", "B"}));
  EXPECT_EQ(run.keep_environment, std::vector<std::string>{"MASTER_ADDR"});
  EXPECT_TRUE(run.again);
  EXPECT_EQ(run.show_all_up_to, kShowAll);
  EXPECT_FALSE(run.local.has_value());
  EXPECT_EQ(run.form_timeout, std::chrono::minutes(30));
  EXPECT_EQ(line->program, (std::vector<std::string>{"python", "train.py", "--lease", "x"}));
  EXPECT_EQ(line->settings.Get("lease")->source, Source::kCommandLine);
  EXPECT_EQ(line->settings.Get("lease")->where, "--lease");
}

TEST(CommandLine, LocalWithAndWithoutAShape) {
  const std::vector<std::pair<std::vector<std::string>, LocalShape>> cases = {
      {{"--local", "true"}, {1, std::nullopt}},
      {{"--local", "4", "true"}, {1, 4}},
      {{"--local=2x3", "true"}, {2, 3}},
      {{"--local", "2x3", "--", "true"}, {2, 3}},
      {{"--local", "--", "true"}, {1, std::nullopt}},
      {{"--local", "--", "0"}, {1, std::nullopt}},
      {{"--local", "7z"}, {1, std::nullopt}},
  };
  for (const auto& [words, shape] : cases) {
    const Result<CommandLine> line = ParseRun(words);
    ASSERT_TRUE(line.ok()) << line.status().ToString();
    EXPECT_EQ(line->program, std::vector<std::string>{words.back()});
    EXPECT_EQ(ToRunOptions(line->settings).local, shape);
  }
}

TEST(CommandLine, TheLastOfARepeatedOptionWins) {
  const Result<CommandLine> line = ParseRun({"-N2", "--nodes=3", "x"});
  ASSERT_TRUE(line.ok()) << line.status().ToString();
  EXPECT_EQ(ToRunOptions(line->settings).nodes, (NodeRange{3, 3}));
}

TEST(CommandLine, AListOfTheCommandLineReplacesALowerOne) {
  Settings settings;
  ASSERT_TRUE(settings.Set(*FindOption("srun"), "--low", Source::kUserFile, "f:1").ok());
  const Result<CommandLine> line = ParseCommandLine(kRun, {"--srun=a", "--srun=b", "x"}, settings);
  ASSERT_TRUE(line.ok());
  EXPECT_EQ(line->settings.List("srun"), (std::vector<std::string>{"a", "b"}));
}

TEST(CommandLine, NamesOptionValueAndWhatIsRight) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"-N", "4:2", "x"}, "--nodes cannot be \"4:2\": the minimum 4 is above the maximum 2"},
      {{"-N0", "x"}, "--nodes cannot be \"0\": give the nodes as MIN or MIN:MAX"},
      {{"--lease", "soon", "x"}, "--lease cannot be \"soon\": give a time such as"},
      {{"--lease=", "x"}, "--lease cannot be \"\": give a time such as"},
      {{"--workers-per-node", "0", "x"},
       "--workers-per-node cannot be \"0\": give a whole number from 1"},
      {{"--local=2y2", "x"}, "--local cannot be \"2y2\": give N workers or HxN"},
      {{"--local", "0", "x"}, "--local cannot be \"0\": give N workers or HxN"},
      {{"--local", "99999x99999", "x"}, "--local cannot be \"99999x99999\": give N workers or HxN"},
      {{"--local", "1e3", "x"}, "--local cannot be \"1e3\": give N workers or HxN"},
      {{"--name", "a/b", "x"}, "--name cannot be \"a/b\": give a name of letters"},
      {{"--env", "1=2", "x"}, "--env cannot be \"1=2\": give NAME or NAME=VALUE"},
      {{"--state-dir=", "x"}, "--state-dir cannot be \"\": give a path"},
      {{"--json", "x"}, "unknown option --json"},
      {{"--leas", "5", "x"}, "unknown option --leas; did you mean --lease?"},
  };
  for (const auto& [words, message] : cases) {
    const Result<CommandLine> line = ParseRun(words);
    ASSERT_FALSE(line.ok()) << message;
    EXPECT_EQ(line.status().code(), StatusCode::kInvalidArgument);
    EXPECT_TRUE(line.status().message().starts_with(message)) << line.status().message();
  }
}

TEST(CommandLine, ForeignOptionsArePassedOn) {
  const ForeignShapes foreign = {{"partition", 'p', Arity::kRequired},
                                 {"exclusive", 0, Arity::kAttached},
                                 {"", 'Q', Arity::kNone}};
  const Result<CommandLine> line =
      ParseCommandLine(kSubmit, {"-N", "4", "-p", "gpu", "--exclusive", "-Q", "job.sh", "-p", "y"},
                       Settings(), foreign);
  ASSERT_TRUE(line.ok()) << line.status().ToString();
  EXPECT_EQ(line->foreign, (std::vector<std::string>{"--partition=gpu", "--exclusive", "-Q"}));
  EXPECT_EQ(ToRunOptions(line->settings).nodes, (NodeRange{4, 4}));
  EXPECT_EQ(line->program, (std::vector<std::string>{"job.sh", "-p", "y"}));
}

}  // namespace
}  // namespace muster::config
