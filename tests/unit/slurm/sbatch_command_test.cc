#include "launcher/slurm/sbatch_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/random.h"
#include "common/text.h"

namespace muster::slurm {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

SubmitInput Program(std::vector<std::string> options) {
  SubmitInput input;
  input.options = std::move(options);
  input.program = {"python", "train.py", "it's", "--lr=1"};
  input.run_words = {"/opt/muster", "run", "--spares=1", "--"};
  input.directory = "/home/u";
  input.environment = {{"PATH", "/bin"}, {"USER", "u"}};
  return input;
}

SubmitInput Script(const std::string& lines, std::vector<std::string> options = {}) {
  SubmitInput input = Program(std::move(options));
  input.program.clear();
  input.script = SubmitScript{.path = "jobs/train.sh",
                              .text = "#!/bin/bash\n" + lines + "\nexec muster run -- x\n",
                              .arguments = {"a", "-b"}};
  return input;
}

std::string Arguments(const SubmitInput& input) {
  const auto command = BuildSbatchCommand(input);
  return command.ok() ? Join(command->request.arguments, " ") : command.status().ToString();
}

TEST(SbatchCommandTest, AProgramBecomesAScript) {
  const SbatchCommand command = BuildSbatchCommand(Program({"--nodes=4", "-t10"})).value();
  EXPECT_THAT(command.request.arguments, ElementsAre("--nodes=4", "-t10", "--requeue", "--no-kill",
                                                     "--open-mode=append", "--job-name=train.py"));
  EXPECT_EQ(command.request.script,
            "#!/bin/sh\n# Written by `muster submit`.\n"
            "exec /opt/muster run --spares=1 -- python train.py 'it'\\''s' --lr=1\n");
  EXPECT_EQ(command.request.directory, "/home/u");
  EXPECT_THAT(command.folders, IsEmpty());
}

TEST(SbatchCommandTest, AScriptKeepsItsArguments) {
  EXPECT_EQ(Arguments(Script("#SBATCH -N 4", {"--time=10"})),
            "--time=10 --requeue --no-kill --open-mode=append jobs/train.sh a -b");
}

TEST(SbatchCommandTest, WhatTheUserSaidIsNotSaidAgain) {
  EXPECT_EQ(Arguments(Script("", {"--no-requeue", "-k", "--open-mode=truncate"})),
            "--no-requeue -k --open-mode=truncate jobs/train.sh a -b");
  EXPECT_EQ(Arguments(Script("#SBATCH --no-requeue\n#SBATCH --no-kill=off --open-mode=append")),
            "jobs/train.sh a -b");
  EXPECT_EQ(Arguments(Script("# a comment\n\n#SBATCH --requeue  # because")),
            "--no-kill --open-mode=append jobs/train.sh a -b");
  // getopt's shortened names.
  EXPECT_EQ(Arguments(Script("#SBATCH --no-req --open=append", {"--no-k"})),
            "--no-k jobs/train.sh a -b");
  SubmitInput input = Script("");
  input.environment["SBATCH_NO_REQUEUE"] = "1";
  input.environment["SBATCH_OPEN_MODE"] = "append";
  input.environment["SBATCH_NO_KILL"] = "set";
  EXPECT_EQ(Arguments(input), "jobs/train.sh a -b");
}

TEST(SbatchCommandTest, LinesBehindTheFirstCommandAreComments) {
  EXPECT_EQ(Arguments(Script("echo\n#SBATCH --no-requeue")),
            "--requeue --no-kill --open-mode=append jobs/train.sh a -b");
  EXPECT_EQ(Arguments(Script("##SBATCH --no-requeue\n #SBATCH --no-requeue\n#SBATCHx --no-kill")),
            "--requeue --no-kill --open-mode=append jobs/train.sh a -b");
}

TEST(SbatchCommandTest, TruncationIsWarnedOf) {
  const SbatchCommand command = BuildSbatchCommand(Program({"--open-mode=truncate"})).value();
  EXPECT_THAT(command.notes, Contains(HasSubstr("erases the output")));
}

TEST(SbatchCommandTest, VariablesOfASurroundingJobAreRemoved) {
  SubmitInput input = Program({});
  input.environment = {{"PATH", "/bin"},
                       {"SLURM_CONF", "/etc/slurm.conf"},
                       {"SLURM_JOB_ID", "7"},
                       {"SLURM_CPU_BIND", "mask_cpu:0xf"},
                       {"SLURM_CPUS_PER_TASK", "4"},
                       {"SLURMD_NODENAME", "n1"},
                       {"SLURM_STEP_ID", "0"},
                       {"SBATCH_EXCLUSIVE", "1"},
                       {"SRUN_CPUS_PER_TASK", "4"},
                       {"PMIX_RANK", "0"},
                       {"PMI_FD", "3"},
                       {"OMPI_MCA_x", "1"},
                       {"_SLURM_SPANK_OPTION_muster_muster", "1"},
                       {"CUDA_VISIBLE_DEVICES", "2,3"},
                       {"MUSTER_JOIN_SECRET", "5ecret"},
                       {"MUSTER_LOG", "debug"}};
  const SbatchCommand command = BuildSbatchCommand(input).value();
  EXPECT_EQ(command.request.environment,
            (EnvironmentMap{
                {"MUSTER_LOG", "debug"}, {"PATH", "/bin"}, {"SLURM_CONF", "/etc/slurm.conf"}}));
  EXPECT_THAT(command.notes, Contains(HasSubstr("surrounding job 7")));
  EXPECT_THAT(command.notes, Contains(HasSubstr("SBATCH_EXCLUSIVE")));
}

TEST(SbatchCommandTest, OutsideOfAJobTheUsersVariablesStay) {
  SubmitInput input = Program({});
  input.environment["SBATCH_ACCOUNT"] = "lab";
  input.environment["SLURM_HINT"] = "nomultithread";
  input.environment["CUDA_VISIBLE_DEVICES"] = "0";
  EXPECT_EQ(BuildSbatchCommand(input)->request.environment, input.environment);
}

struct FolderCase {
  std::vector<std::string> options;
  std::string lines;
  std::string folder;
  bool fixed;
};

TEST(SbatchCommandTest, OutputFoldersAreNamed) {
  for (const FolderCase& c : std::vector<FolderCase>{
           {{"-o", "logs/%j.out"}, "", "/home/u/logs", true},
           {{"--output=/scratch/%u/%x/%j.out"}, "", "/scratch/u/train.sh", true},
           {{"-o%x/out", "-J", "big run"}, "", "/home/u/big run", true},
           {{"-oout"}, "", "/home/u", true},
           {{"-o", "logs/%j/%t.out"}, "", "/home/u/logs", false},
           {{"-o", "%A/%a.out"}, "", "/home/u", false},
           {{"-o", "a%%b/%4j.out"}, "", "/home/u/a%b", true},
           {{"-o", "\\lit%j/x"}, "", "/home/u/lit%j", true},
           {{"-D", "/campaign", "-o", "logs/x"}, "", "/campaign/logs", true},
           {{"-D", "sub", "-o", "logs/x"}, "", "/home/u/sub/logs", true},
           {{}, "#SBATCH --output=logs/%j.out", "/home/u/logs", true},
           {{}, "#SBATCH -o 'my logs/%j.out'", "/home/u/my logs", true},
           {{}, "#SBATCH -J nam -o %x/out", "/home/u/nam", true},
           {{}, "#SBATCH --chdir=/campaign --output logs/x", "/campaign/logs", true},
           {{"-o", "mine/x"}, "#SBATCH --output=script/x", "/home/u/mine", true},
           {{"-o/x"}, "", "/", true}}) {
    const auto command = BuildSbatchCommand(Script(c.lines, c.options));
    ASSERT_TRUE(command.ok()) << command.status().ToString();
    ASSERT_EQ(command->folders.size(), 1U) << Join(c.options, " ") << c.lines;
    EXPECT_EQ(command->folders[0].option, "--output");
    EXPECT_EQ(command->folders[0].folder, c.folder) << Join(c.options, " ") << c.lines;
    EXPECT_EQ(command->folders[0].fixed, c.fixed) << Join(c.options, " ") << c.lines;
  }
  const SbatchCommand both = BuildSbatchCommand(Program({"-o", "a/x", "-e", "b/x"})).value();
  ASSERT_EQ(both.folders.size(), 2U);
  EXPECT_EQ(both.folders[1].option, "--error");
  EXPECT_EQ(both.folders[1].folder, "/home/u/b");
  SubmitInput input = Script("#SBATCH -o script/x");
  input.environment["SBATCH_OUTPUT"] = "variable/x";
  EXPECT_EQ(BuildSbatchCommand(input)->folders[0].folder, "/home/u/variable");
}

TEST(SbatchCommandTest, ExactlyOneThingToRun) {
  SubmitInput nothing = Program({});
  nothing.program.clear();
  EXPECT_THAT(Arguments(nothing), HasSubstr("one thing to run"));
  EXPECT_THAT(Arguments(Program({"--wrap=x"})), HasSubstr("one thing to run"));
  nothing.options = {"--wrap", "hostname"};
  EXPECT_EQ(Arguments(nothing), "--wrap hostname --requeue --no-kill --open-mode=append");
  SubmitInput binary = Script("");
  binary.script->text =
      "\x7f"
      "ELF";
  EXPECT_THAT(Arguments(binary), HasSubstr("jobs/train.sh does not begin with #!"));
}

TEST(SbatchCommandTest, WhatDoesNotEndAtOnceOrMakesNoJobIsRefused) {
  EXPECT_THAT(Arguments(Program({"--wait"})), HasSubstr("has no --wait; "));
  EXPECT_THAT(Arguments(Program({"-W"})), HasSubstr("has no --wait; "));
  EXPECT_THAT(Arguments(Script("#SBATCH -W")), HasSubstr("has no --wait; "));
  EXPECT_THAT(Arguments(Program({"--test-only"})), HasSubstr("has no --test-only; "));
  EXPECT_THAT(Arguments(Script("#SBATCH --quiet")), HasSubstr("has no --quiet; "));
  EXPECT_THAT(Arguments(Program({"--quiet", "-Q"})), testing::Not(HasSubstr("Q")));
  EXPECT_THAT(Arguments(Program({"--quiet"})), testing::Not(HasSubstr("quiet")));
  SubmitInput input = Program({});
  input.environment["SBATCH_WAIT"] = "1";
  EXPECT_THAT(Arguments(input), HasSubstr("has no --wait; "));
}

TEST(SbatchCommandTest, BrokenLinesAreNamedByNumber) {
  EXPECT_THAT(Arguments(Script("#SBATCH -N 2\n#SBATCH --output='x")),
              HasSubstr("jobs/train.sh, line 3: a quote (') is not closed"));
  EXPECT_THAT(Arguments(Script("#SBATCH --output")), HasSubstr("line 2"));
  EXPECT_THAT(Arguments(Script("#SBATCH nodes=2")),
              AllOf(HasSubstr("line 2"), HasSubstr("nodes=2")));
  EXPECT_THAT(Arguments(Script("#SBATCH -z")), HasSubstr("no option -z"));
}

TEST(SbatchOptionsTest, WordsInAllTheirForms) {
  const auto settings =
      ParseSbatchWords({"-N4", "-n", "8", "--time=1:00", "--mem", "4G", "-Hk", "--exclusive",
                        "--exclusive=user", "-koff", "--container-image=x", "--muster", "--wait"})
          .value();
  std::vector<std::string> seen;
  for (const SbatchSetting& s : settings) seen.push_back(s.name + "=" + s.value.value_or("-"));
  EXPECT_THAT(seen, ElementsAre("nodes=4", "ntasks=8", "time=1:00", "mem=4G", "hold=-", "no-kill=-",
                                "exclusive=-", "exclusive=user", "no-kill=off", "container-image=x",
                                "muster=-", "wait=-"));
  EXPECT_EQ(FindSetting(settings, "exclusive")->value, "user");
  EXPECT_EQ(FindSetting(settings, "qos"), nullptr);
  for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{
           {"--nodes"}, {"-N"}, {"script.sh"}, {"--"}, {"-"}, {"-Z"}}) {
    EXPECT_FALSE(ParseSbatchWords(words).ok()) << words[0];
  }
}

TEST(SbatchOptionsTest, NamesAndLettersAreUnique) {
  std::vector<std::string_view> names;
  std::vector<char> letters;
  for (const SbatchOption& option : SbatchOptions()) {
    names.push_back(option.name);
    if (option.letter != 0) letters.push_back(option.letter);
  }
  for (auto* list : {&names}) {
    std::sort(list->begin(), list->end());
    EXPECT_EQ(std::adjacent_find(list->begin(), list->end()), list->end());
  }
  std::sort(letters.begin(), letters.end());
  EXPECT_EQ(std::adjacent_find(letters.begin(), letters.end()), letters.end());
}

TEST(SbatchCommandTest, RandomScriptsNeverCrash) {
  Random random(51);
  constexpr std::string_view kBytes = "-No= '\"\\#%jx/\n\t\xff";
  for (int round = 0; round < 5000; ++round) {
    std::string lines;
    for (std::uint64_t n = random.Below(4); n > 0; --n) {
      lines += "#SBATCH ";
      for (std::uint64_t k = random.Below(16); k > 0; --k)
        lines += kBytes[random.Below(kBytes.size())];
      lines += '\n';
    }
    (void)BuildSbatchCommand(Script(lines));
  }
}

TEST(ShellQuoteTest, OneWord) {
  EXPECT_EQ(ShellQuote("a/b.c=1"), "a/b.c=1");
  EXPECT_EQ(ShellQuote(""), "''");
  EXPECT_EQ(ShellQuote("$(rm) `x`"), "'$(rm) `x`'");
  EXPECT_EQ(ShellQuote("~"), "'~'");
  EXPECT_EQ(ShellQuote("a\nb"), "'a\nb'");
}

}  // namespace
}  // namespace muster::slurm
