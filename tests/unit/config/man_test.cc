#include <gtest/gtest.h>

#include <string>

#include "launcher/config/command_line.h"
#include "launcher/config/exit_codes.h"
#include "launcher/config/man_text.h"
#include "launcher/config/option_table.h"

namespace muster::config {
namespace {

TEST(ManText, EscapesWhatManWouldTakeForItsOwn) {
  EXPECT_EQ(ManText("a-b \\ c"), "a\\-b \\e c");
  EXPECT_EQ(ManText("~/x ^"), "\\(ti/x \\(ha");
  EXPECT_EQ(ManText(".muster/JOB"), "\\&.muster/JOB");
  EXPECT_EQ(ManText("'quoted'"), "\\&'quoted'");
  EXPECT_EQ(ManText("see `muster run` and"), "see \\fBmuster run\\fR and");
  // A long line is broken, but not where the next one would begin a request.
  const std::string word(75, 'x');
  EXPECT_EQ(ManText(word + " more words"), word + "\nmore words");
  EXPECT_EQ(ManText("a " + word + " .muster"), "a\n" + word + " .muster");
  // An open one does not make the rest of the page bold.
  EXPECT_EQ(ManText("see `muster"), "see \\fBmuster\\fR");
}

TEST(ManPage, EveryOptionSaysWhichCommandsKnowIt) {
  const std::string page = OptionsManPage(~0U);
  for (const Option& option : AllOptions()) {
    EXPECT_NE(page.find("\\-\\-" + ManText(option.name)), std::string::npos) << option.name;
  }
  EXPECT_NE(page.find("Commands: run, plan.\n"), std::string::npos);
}

TEST(ManPage, ThePageMayBeLeftOut) {
  const auto parse = [](std::vector<std::string> words) {
    return ParseCommandLine(kConfig, words, Settings());
  };
  EXPECT_FALSE(parse({})->settings.Given("man"));
  for (const auto& words : {std::vector<std::string>{"--man"}, {"--man="}}) {
    const auto line = parse(words);
    ASSERT_TRUE(line.ok()) << line.status().message();
    EXPECT_TRUE(line->settings.Given("man"));
    EXPECT_EQ(line->settings.Text("man"), "");
  }
  EXPECT_EQ(parse({"--man=environment"})->settings.Text("man"), "environment");
  EXPECT_EQ(parse({"--man", "environment"})->settings.Text("man"), "environment");
  EXPECT_FALSE(parse({"--man=nonsense"}).ok());
}

TEST(ExitCodes, AscendAndEndWithTheWorkersOwn) {
  int last = -1;
  for (const ExitCode& code : ExitCodes()) {
    EXPECT_TRUE(code.meaning.ends_with('.')) << code.code;
    if (code.code == "other") continue;
    const int number = std::stoi(std::string(code.code));
    EXPECT_GT(number, last);
    last = number;
  }
  EXPECT_EQ(ExitCodes().back().code, "other");
}

}  // namespace
}  // namespace muster::config
