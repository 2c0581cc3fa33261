#include "launcher/config/argument_cut.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "common/random.h"
#include "common/text.h"

namespace muster::config {
namespace {

const std::vector<OptionShape>& Shapes() {
  static const std::vector<OptionShape> shapes = {
      {"nodes", 'N', Arity::kRequired, "MIN[:MAX]"},
      {"srun", 0, Arity::kRequired, "OPTION"},
      {"again", 'a', Arity::kNone},
      {"help", 'h', Arity::kNone},
      {"local", 'l', Arity::kOptional, "N",
       [](std::string_view word) { return word == "4" || word == "2x2"; }},
      {"exclusive", 0, Arity::kAttached},
      {"", 'Q', Arity::kRequired},
  };
  return shapes;
}

const OptionShape* Find(std::string_view name, char letter) {
  for (const OptionShape& shape : Shapes()) {
    if (letter != 0 ? shape.letter == letter : (!name.empty() && shape.name == name)) {
      return &shape;
    }
  }
  return nullptr;
}

Result<Cut> CutOf(const std::vector<std::string>& words) {
  return CutArguments(words, Find,
                      [](std::string_view name) { return name == "nods" ? "nodes" : ""; });
}

struct Case {
  std::vector<std::string> words;
  std::vector<std::string> options;  // as Word() writes them
  std::vector<std::string> program;
  bool dashes = false;
};

TEST(ArgumentCut, EveryFormOfAnOption) {
  const std::vector<Case> cases = {
      {{}, {}, {}},
      {{"--"}, {}, {}, true},
      {{"a.out"}, {}, {"a.out"}},
      {{"--nodes", "4", "a.out"}, {"--nodes=4"}, {"a.out"}},
      {{"--nodes=4", "a.out"}, {"--nodes=4"}, {"a.out"}},
      {{"--nodes=", "a.out"}, {"--nodes="}, {"a.out"}},
      {{"--nodes=a=b"}, {"--nodes=a=b"}, {}},
      {{"-N4", "a.out"}, {"--nodes=4"}, {"a.out"}},
      {{"-N", "2:4", "a.out"}, {"--nodes=2:4"}, {"a.out"}},
      {{"-aN4", "x"}, {"--again", "--nodes=4"}, {"x"}},
      {{"-ah"}, {"--again", "--help"}, {}},
      {{"--srun", "--exclusive", "--srun=-w n1", "x"},
       {"--srun=--exclusive", "--srun=-w n1"},
       {"x"}},
      {{"--srun", "-N4", "x"}, {"--srun=-N4"}, {"x"}},
      {{"--again", "python", "--again", "-N", "4"}, {"--again"}, {"python", "--again", "-N", "4"}},
      {{"--again", "--", "--again", "--", "x"}, {"--again"}, {"--again", "--", "x"}, true},
      {{"--local", "4", "x"}, {"--local=4"}, {"x"}},
      {{"--local", "2x2", "--", "x"}, {"--local=2x2"}, {"x"}, true},
      {{"--local", "x"}, {"--local"}, {"x"}},
      {{"--local", "--again", "x"}, {"--local", "--again"}, {"x"}},
      {{"--local", "--", "4"}, {"--local"}, {"4"}, true},
      {{"--local=7", "x"}, {"--local=7"}, {"x"}},
      {{"-l", "x"}, {"--local"}, {"x"}},
      {{"-l4", "x"}, {"--local=4"}, {"x"}},
      {{"--exclusive", "x"}, {"--exclusive"}, {"x"}},
      {{"--exclusive=user", "x"}, {"--exclusive=user"}, {"x"}},
      {{"-Q", "7", "x"}, {"-Q7"}, {"x"}},
      // Not options: a lone dash, an empty word, a dash further right.
      {{"-", "--again"}, {}, {"-", "--again"}},
      {{"", "--again"}, {}, {"", "--again"}},
      {{"./train", "-x"}, {}, {"./train", "-x"}},
      // The value of an option may look like a program, and the program like a value.
      {{"--nodes", "python", "4"}, {"--nodes=python"}, {"4"}},
  };
  for (const Case& expected : cases) {
    SCOPED_TRACE(Join(expected.words, " "));
    const Result<Cut> cut = CutOf(expected.words);
    ASSERT_TRUE(cut.ok()) << cut.status().ToString();
    std::vector<std::string> options;
    for (const CutOption& option : cut->options) options.push_back(option.Word());
    EXPECT_EQ(options, expected.options);
    EXPECT_EQ(cut->program, expected.program);
    EXPECT_EQ(cut->dashes, expected.dashes);
  }
}

TEST(ArgumentCut, SaysWhatIsWrong) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"--nods", "4"}, "unknown option --nods; did you mean --nodes?"},
      {{"--nods=4"}, "unknown option --nods; did you mean --nodes?"},
      {{"--zzz"}, "unknown option --zzz; --help"},
      {{"-z"}, "unknown option -z"},
      {{"-az4"}, "unknown option -z"},
      {{"-N"}, "option -N needs a value: -N MIN[:MAX]"},
      {{"--nodes", "--", "x"}, "option --nodes needs a value: --nodes MIN[:MAX]"},
      {{"-Q"}, "option -Q needs a value: -Q VALUE"},
      {{"--again=yes"}, "option --again takes no value"},
      {{"---"}, "unknown option ---"},
  };
  for (const auto& [words, message] : cases) {
    SCOPED_TRACE(Join(words, " "));
    const Result<Cut> cut = CutOf(words);
    ASSERT_FALSE(cut.ok());
    EXPECT_EQ(cut.status().code(), StatusCode::kInvalidArgument);
    EXPECT_TRUE(cut.status().message().starts_with(message)) << cut.status().message();
  }
}

// Whatever stands right of `--` comes out as it went in, and words are neither lost nor made.
TEST(ArgumentCut, NothingRightOfTheCutIsTouched) {
  Random random(7);
  const std::vector<std::string> pool = {"--nodes", "4", "-N4", "--",  "--again", "x",
                                         "-l",      "",  "-",   "-Q1", "--zzz",   "--local"};
  for (int round = 0; round < 2000; ++round) {
    std::vector<std::string> left;
    std::vector<std::string> right;
    for (std::uint64_t i = random.Below(4); i > 0; --i) {
      left.push_back(random.Chance(0.5) ? "--again" : "-N4");
    }
    for (std::uint64_t i = random.Below(6); i > 0; --i) {
      right.push_back(pool[random.Below(pool.size())]);
    }
    std::vector<std::string> words = left;
    words.push_back("--");
    words.insert(words.end(), right.begin(), right.end());
    const Result<Cut> cut = CutOf(words);
    ASSERT_TRUE(cut.ok());
    EXPECT_EQ(cut->program, right);
    EXPECT_EQ(cut->options.size(), left.size());
  }
}

}  // namespace
}  // namespace muster::config
