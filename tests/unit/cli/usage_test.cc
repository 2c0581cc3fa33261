#include "launcher/cli/usage.h"

#include <gtest/gtest.h>

#include <string>

#include "launcher/cli/man_pages.h"
#include "launcher/config/option_table.h"

namespace muster::cli {
namespace {

TEST(Usage, HelpBeginsWithEveryWayToCallACommand) {
  EXPECT_TRUE(UsageText(config::kRun).starts_with("usage: muster run [options] [--] PROGRAM"));
  const std::string submit = UsageText(config::kSubmit);
  EXPECT_NE(submit.find("\n       muster submit [options] -- PROGRAM [ARGUMENTS]\n\nSubmits"),
            std::string::npos)
      << submit;
}

TEST(ManPages, NameEveryCommandAndEndWithALine) {
  const std::string page = MusterPage();
  for (const CommandUsage& usage : CommandUsages()) {
    EXPECT_NE(page.find(".B muster " + std::string(config::CommandName(usage.command)) + "\n"),
              std::string::npos);
    EXPECT_FALSE(UsageText(usage.command).empty());
  }
  for (const std::string& text : {page, EnvironmentPage()}) {
    EXPECT_TRUE(text.starts_with(".TH MUSTER"));
    EXPECT_TRUE(text.ends_with('\n'));
    EXPECT_EQ(text.find("\n\n"), std::string::npos) << "an empty line is a warning to man";
  }
}

}  // namespace
}  // namespace muster::cli
