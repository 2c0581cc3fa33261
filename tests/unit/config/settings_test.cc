#include "launcher/config/settings.h"

#include <gtest/gtest.h>

#include <string>

#include "launcher/config/print.h"

namespace muster::config {
namespace {

const Option& Named(const char* name) { return *FindOption(name); }

TEST(Settings, HaveTheTablesDefaults) {
  const Settings settings;
  EXPECT_EQ(settings.Time("lease"), std::chrono::seconds(5));
  EXPECT_EQ(settings.Count("spares"), 0);
  EXPECT_EQ(settings.Get("nodes"), nullptr);
  EXPECT_FALSE(settings.Given("lease"));
  EXPECT_FALSE(settings.Flag("again"));
}

TEST(Settings, KeepTheSourceOfEachValue) {
  Settings settings;
  ASSERT_TRUE(settings.Set(Named("lease"), "7s", Source::kUserFile, "f:3").ok());
  EXPECT_EQ(settings.Get("lease")->where, "f:3");
  ASSERT_TRUE(settings.Set(Named("lease"), "8s", Source::kEnvironment, "MUSTER_LEASE").ok());
  EXPECT_EQ(settings.Time("lease"), std::chrono::seconds(8));
  EXPECT_TRUE(settings.Given("lease"));
  EXPECT_NE(SettingsText(settings).find("MUSTER_LEASE"), std::string::npos);
}

TEST(Settings, AWrongValueNamesItsSource) {
  Settings settings;
  const Status status = settings.Set(Named("spares"), "-1", Source::kUserFile, "/x/muster.conf:2");
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(),
            "--spares cannot be \"-1\" (from /x/muster.conf:2): give a whole number from 0 to "
            "65536");
  EXPECT_EQ(settings.Count("spares"), 0);
}

TEST(Settings, ALimitOfTheSiteIsKeptAndNamed) {
  Settings settings;
  ASSERT_TRUE(settings.SetLimit(Named("spares"), "2", "/etc/muster/muster.conf:9").ok());
  ASSERT_TRUE(settings.SetLimit(Named("form-timeout"), "1h", "/etc/muster/muster.conf:10").ok());
  EXPECT_TRUE(settings.Set(Named("spares"), "2", Source::kCommandLine, "--spares").ok());
  const Status status = settings.Set(Named("spares"), "3", Source::kCommandLine, "--spares");
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_NE(status.message().find("/etc/muster/muster.conf:9"), std::string::npos);
  EXPECT_FALSE(settings.Set(Named("form-timeout"), "61m", Source::kUserFile, "f:1").ok());
  EXPECT_FALSE(settings.SetLimit(Named("name"), "x", "f:1").ok());
}

TEST(Settings, FlagsAreYesOrNo) {
  Settings settings;
  for (const char* text : {"yes", "true", "on", "1"}) {
    ASSERT_TRUE(settings.Set(Named("again"), text, Source::kEnvironment, "MUSTER_AGAIN").ok());
    EXPECT_TRUE(settings.Flag("again"));
    ASSERT_TRUE(settings.Set(Named("again"), "no", Source::kEnvironment, "MUSTER_AGAIN").ok());
    EXPECT_FALSE(settings.Flag("again"));
  }
  EXPECT_FALSE(settings.Set(Named("again"), "perhaps", Source::kEnvironment, "MUSTER_AGAIN").ok());
}

}  // namespace
}  // namespace muster::config
