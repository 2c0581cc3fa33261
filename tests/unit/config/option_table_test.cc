#include "launcher/config/option_table.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "launcher/config/print.h"
#include "launcher/config/sources.h"
#include "launcher/config/value.h"
#include "proto/environment.h"

namespace muster::config {
namespace {

TEST(OptionTable, NamesAndTwinsAreUnique) {
  std::set<std::string> twins;
  for (const Option& option : AllOptions()) {
    EXPECT_TRUE(twins.insert(EnvironmentTwin(option)).second) << option.name;
    EXPECT_EQ(FindOption(option.name), &option);
    EXPECT_FALSE(option.help.empty()) << option.name;
    if (option.configurable) {
      EXPECT_FALSE(option.reason.empty()) << option.name;
    }
  }
}

TEST(OptionTable, DefaultsAreValuesOfTheirKind) {
  for (const Option& option : AllOptions()) {
    if (option.default_value.empty()) continue;
    EXPECT_TRUE(CheckValue(option, option.default_value).ok()) << option.name;
  }
}

TEST(OptionTable, NoTwinMeansSomethingElse) {
  using namespace environment;  // NOLINT: a list of its names follows
  for (const char* taken : {kRunId, kRunName, kAttempt, kRound, kRestartCause, kDeviceIndex,
                            kAgentSocket, kNoticeFile, kEnabled, kLogLevel, kTimeoutFactor, kStep,
                            kEndpoint, kJoinSecret, kCertificate, kAgentOptions}) {
    for (const Option& option : AllOptions()) {
      if (option.configurable) {
        EXPECT_NE(EnvironmentTwin(option), taken);
      }
    }
  }
}

TEST(OptionTable, SuggestsWhatIsNear) {
  EXPECT_EQ(NearestOption("leese", kRun), "lease");
  EXPECT_EQ(NearestOption("spare", kRun), "spares");
  EXPECT_EQ(NearestOption("workers", kRun), "workers-per-node");
  EXPECT_EQ(NearestOption("partition", kRun), "");
  EXPECT_EQ(NearestOption("jsn", kRun), "");
  EXPECT_EQ(NearestOption("jsn", kStatus), "json");
}

TEST(OptionTable, HelpAndManPageNameEveryOption) {
  const std::string help = OptionsHelp(kRun);
  const std::string man = OptionsManPage(kRun);
  for (const Option& option : AllOptions()) {
    const bool known = (option.commands & kRun) != 0;
    EXPECT_EQ(help.find("--" + std::string(option.name)) != std::string::npos, known)
        << option.name;
  }
  EXPECT_NE(man.find(".B \\-N, \\-\\-nodes MIN[:MAX]"), std::string::npos) << man;
  std::size_t start = 0;
  for (std::size_t end = help.find('\n'); end != std::string::npos; end = help.find('\n', start)) {
    EXPECT_LE(end - start, 79U) << help.substr(start, end - start);
    start = end + 1;
  }
}

// The commented file with every '#name' uncommented must be readable again where it has a value.
TEST(OptionTable, DefaultsFileIsReadBack) {
  std::string file;
  for (const Option& option : AllOptions()) {
    if (!option.configurable || option.default_value.empty()) continue;
    const std::string line =
        "#" + std::string(option.name) + " = " + std::string(option.default_value) + "\n";
    EXPECT_NE(DefaultsFile().find(line), std::string::npos) << line;
    file += line.substr(1);
  }
  Settings settings;
  EXPECT_TRUE(ApplyFile(file, "f", Source::kUserFile, &settings).ok());
  EXPECT_TRUE(ApplyFile(DefaultsFile(), "f", Source::kUserFile, &settings).ok());
}

}  // namespace
}  // namespace muster::config
