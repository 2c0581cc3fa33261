#include "launcher/config/sources.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "common/random.h"

namespace muster::config {
namespace {

TEST(Sources, AFileSetsValuesWithTheirLine) {
  Settings settings;
  const Status status =
      ApplyFile("# comment\n\n  lease = 7s \r\nsrun=--exclusive\nsrun = -w n1\nname = a=b\n", "f",
                Source::kUserFile, &settings);
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message().rfind("--name cannot be \"a=b\" (from f:6)", 0), 0U)
      << status.message();
  EXPECT_EQ(settings.Get("lease")->where, "f:3");
  EXPECT_EQ(settings.List("srun"), (std::vector<std::string>{"--exclusive", "-w n1"}));
}

TEST(Sources, AFileSaysWhatIsWrong) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"leese = 5s", "f:1: \"leese\" is no setting; did you mean \"lease\"?"},
      {"lease", "f:1: \"lease\" is not a setting; write name = value"},
      {"json = yes", "f:1: \"json\" is no setting"},
      {"[limit]\nspares = 1", "f:1: \"[limit]\" is no section here"},
      {"\n\nlease = never", "--lease cannot be \"never\" (from f:3)"},
  };
  for (const auto& [text, message] : cases) {
    Settings settings;
    const Status status = ApplyFile(text, "f", Source::kUserFile, &settings);
    EXPECT_EQ(status.message().rfind(message, 0), 0U) << status.message();
  }
}

TEST(Sources, TheSitesLimitHoldsAgainstAllBelow) {
  Settings settings;
  ASSERT_TRUE(
      ApplyFile("spares = 1\n[limit]\nspares = 2\n", "site", Source::kSiteFile, &settings).ok());
  const Status status = ApplyEnvironment({{"MUSTER_SPARES", "3"}}, &settings);
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_NE(status.message().find("site:3"), std::string::npos);
}

TEST(Sources, TheEnvironmentHasTwins) {
  Settings settings;
  ASSERT_TRUE(ApplyEnvironment({{"MUSTER_STATE_DIR", "/s"},
                                {"MUSTER_SRUN", "-a\n-b"},
                                {"MUSTER_LEASE", ""},
                                {"MUSTER_JSON", "yes"},
                                {"OTHER", "x"}},
                               &settings)
                  .ok());
  EXPECT_EQ(settings.Text("state-dir"), "/s");
  EXPECT_EQ(settings.List("srun"), (std::vector<std::string>{"-a", "-b"}));
  EXPECT_EQ(settings.Time("lease"), std::chrono::seconds(5));
  EXPECT_EQ(settings.Get("json"), nullptr);
  const Status status = ApplyEnvironment({{"MUSTER_SPARES", "x"}}, &settings);
  EXPECT_NE(status.message().find("(from MUSTER_SPARES)"), std::string::npos);
}

TEST(Sources, UsualFilesFollowTheEnvironment) {
  EXPECT_EQ(UsualFiles({{"HOME", "/h"}}, "/w").user, "/h/.config/muster/muster.conf");
  EXPECT_EQ(UsualFiles({{"HOME", "/h"}, {"XDG_CONFIG_HOME", "/c"}}, "/w").user,
            "/c/muster/muster.conf");
  EXPECT_EQ(UsualFiles({}, "/w").folder, "/w/muster.conf");
  EXPECT_EQ(UsualFiles({{"SLURM_SUBMIT_DIR", "/s"}}, "/w").folder, "/s/muster.conf");
  EXPECT_EQ(UsualFiles({}, "/w").user, "");
}

TEST(Sources, EachSourceIsAboveTheOneBefore) {
  std::string folder = (std::filesystem::temp_directory_path() / "muster-sources-XXXXXX").string();
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  const auto write = [&](const std::string& name, const std::string& text) {
    std::ofstream(folder + "/" + name) << text;
    return folder + "/" + name;
  };
  Files files;
  files.site = write("site", "lease = 6s\nlast-call = 1s\nwait-node = 1s\nspares = 1\n");
  files.user = write("user", "last-call = 2s\nwait-node = 2s\nspares = 2\n");
  files.folder = write("folder", "wait-node = 3s\nspares = 3\n");
  const Result<Settings> settings = LoadSettings(files, {{"MUSTER_SPARES", "4"}});
  ASSERT_TRUE(settings.ok()) << settings.status().ToString();
  EXPECT_EQ(settings->Get("lease")->source, Source::kSiteFile);
  EXPECT_EQ(settings->Get("last-call")->source, Source::kUserFile);
  EXPECT_EQ(settings->Get("wait-node")->source, Source::kFolderFile);
  EXPECT_EQ(settings->Get("spares")->source, Source::kEnvironment);
  EXPECT_EQ(settings->Count("spares"), 4);
  files.site = folder + "/absent";
  files.user = folder + "/absent/too";
  EXPECT_TRUE(LoadSettings(files, {}).ok());
  std::filesystem::remove_all(folder);
}

TEST(Sources, AnyBytesMayComeIn) {
  Random random(11);
  for (int round = 0; round < 3000; ++round) {
    std::string text = random.Chance(0.3) ? "lease = " : "";
    for (std::uint64_t i = random.Below(40); i > 0; --i) {
      text += static_cast<char>(random.Chance(0.6) ? "=#[]\n lease5s:"[random.Below(14)]
                                                   : static_cast<char>(random.Below(256)));
    }
    Settings settings;
    const Status status = ApplyFile(text, "f", Source::kSiteFile, &settings);
    if (!status.ok()) {
      EXPECT_FALSE(status.message().empty());
    }
  }
}

}  // namespace
}  // namespace muster::config
