#include "launcher/config/value.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace muster::config {
namespace {

TEST(Value, NodeRanges) {
  EXPECT_EQ(ParseNodeRange("4").value(), (NodeRange{4, 4}));
  EXPECT_EQ(ParseNodeRange("2:4").value(), (NodeRange{2, 4}));
  EXPECT_EQ(ParseNodeRange("2-4").value(), (NodeRange{2, 4}));
  for (const char* text : {"", ":", "2:", ":4", "0", "4:2", "2:3:4", "-1", "2-", "-4", " 4", "4 ",
                           "+4", "99999999999", "65537", "4k"}) {
    EXPECT_FALSE(ParseNodeRange(text).ok()) << text;
  }
}

TEST(Value, LocalShapes) {
  EXPECT_EQ(ParseLocalShape("").value(), (LocalShape{1, std::nullopt}));
  EXPECT_EQ(ParseLocalShape("4").value(), (LocalShape{1, 4}));
  EXPECT_EQ(ParseLocalShape("2x3").value(), (LocalShape{2, 3}));
  for (const char* text : {"x", "2x", "x3", "0", "0x1", "1x0", "2x3x4", "2X3", "a"}) {
    EXPECT_FALSE(ParseLocalShape(text).ok()) << text;
  }
}

TEST(Value, ShownOutput) {
  EXPECT_EQ(ParseShow("all").value(), kShowAll);
  EXPECT_EQ(ParseShow("rank0").value(), 0U);
  EXPECT_EQ(ParseShow("16").value(), 16U);
  EXPECT_FALSE(ParseShow("some").ok());
  EXPECT_FALSE(ParseShow("-1").ok());
}

TEST(Value, NamesAreSafeAsFolders) {
  const Option& name = *FindOption("name");
  for (const char* good : {"a", "run1", "night-1.2_x", "7"}) {
    EXPECT_TRUE(CheckValue(name, good).ok()) << good;
  }
  for (const char* bad : {"", ".", "..", "-x", "a/b", "a b", "\xc3\xa9", "a\nb"}) {
    EXPECT_FALSE(CheckValue(name, bad).ok()) << bad;
  }
  EXPECT_FALSE(CheckValue(name, std::string(129, 'a')).ok());
}

TEST(Value, ZeroBytesAreNoText) {
  EXPECT_FALSE(CheckValue(*FindOption("state-dir"), std::string_view("a\0b", 3)).ok());
}

}  // namespace
}  // namespace muster::config
