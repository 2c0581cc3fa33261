#include "spank_plugin/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace muster::spank {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(SpankOptions, OffByNothingAndByZero) {
  EXPECT_FALSE(ParseOptions("").on);
  EXPECT_FALSE(ParseOptions("0").on);
}

TEST(SpankOptions, OneIsOnWithDefaults) {
  Wanted wanted = ParseOptions("1");
  EXPECT_TRUE(wanted.on);
  EXPECT_THAT(wanted.arguments, IsEmpty());
}

TEST(SpankOptions, ItemsBecomeOptionsOfTheHost) {
  Wanted wanted = ParseOptions("name=exp1,lease=2s,again");
  EXPECT_TRUE(wanted.on);
  EXPECT_EQ(wanted.problem, "");
  EXPECT_THAT(wanted.arguments, ElementsAre("--name=exp1", "--lease=2s", "--again"));
}

TEST(SpankOptions, ACommaInAValueIsProtectedByABackslash) {
  EXPECT_THAT(ParseOptions("env=A=1\\,2,name=x").arguments, ElementsAre("--env=A=1,2", "--name=x"));
}

TEST(SpankOptions, WhatIsNoOptionIsNamed) {
  for (const char* text : {"name=x,", ",", "Name=x", "-name=x", "a b", "name=x,,lease=1s", "=x"}) {
    Wanted wanted = ParseOptions(text);
    EXPECT_TRUE(wanted.on) << text;
    EXPECT_THAT(wanted.problem, HasSubstr(text));
    EXPECT_THAT(wanted.problem, HasSubstr("is not an option"));
  }
}

TEST(SpankOptions, RandomBytesNeverCrashAndNeverMakeAnOptionWithoutDashes) {
  std::mt19937 random(1);
  for (int round = 0; round < 20000; ++round) {
    std::string text(random() % 24, '\0');
    for (char& letter : text) letter = "abz019-=,\\ \n\xff"[random() % 13];
    Wanted wanted = ParseOptions(text);
    for (const std::string& argument : wanted.arguments) {
      ASSERT_EQ(argument.substr(0, 2), "--");
      ASSERT_NE(argument[2], '-');
    }
  }
}

}  // namespace
}  // namespace muster::spank
