#include "common/text.h"

#include <gtest/gtest.h>

namespace muster {
namespace {

TEST(TextTest, SplitKeepsEmptyParts) {
  EXPECT_EQ(Split("", ','), (std::vector<std::string_view>{""}));
  EXPECT_EQ(Split("a,,b,", ','), (std::vector<std::string_view>{"a", "", "b", ""}));
}

TEST(TextTest, TrimTakesBlanksFromBothEnds) {
  EXPECT_EQ(Trim(" \t a b \r\n"), "a b");
  EXPECT_EQ(Trim(" \n "), "");
  EXPECT_EQ(Trim(""), "");
}

TEST(TextTest, JoinAndConcat) {
  EXPECT_EQ(Join({"a", "b"}, ", "), "a, b");
  EXPECT_EQ(Join({}, ", "), "");
  EXPECT_EQ(Concat("rank ", 3, '/', std::size_t{8}, " ", true), "rank 3/8 true");
}

TEST(TextTest, QuoteIsPrintableAndBounded) {
  EXPECT_EQ(Quote("a\n\x1b[1m"), "\"a\\x0a\\x1b[1m\"");
  EXPECT_EQ(Quote(std::string(1000, 'x')).size(), 205U);
}

TEST(TextTest, ParseIntegerReadsTheWholeText) {
  EXPECT_EQ(ParseInteger<int>("x", "-12").value(), -12);
  EXPECT_EQ(ParseInteger<std::uint64_t>("x", "18446744073709551615").value(),
            std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ(ParseInteger<int>("x", "8", 1, 8).value(), 8);
}

TEST(TextTest, ParseIntegerRefusesAndNamesTheText) {
  for (const char* text : {"", " 1", "1 ", "+1", "1x", "0x10", "1.0", "--1", "4(x2)"}) {
    const Result<int> result = ParseInteger<int>("SLURM_NTASKS", text);
    ASSERT_FALSE(result.ok()) << text;
    EXPECT_EQ(result.status().code(), StatusCode::kInvalidArgument);
    EXPECT_EQ(result.status().message(),
              Concat("SLURM_NTASKS is \"", text, "\", not a whole number"));
  }
  EXPECT_EQ(ParseInteger<int>("port", "65536", 1, 65535).status().message(),
            "port is \"65536\", not between 1 and 65535");
  EXPECT_EQ(ParseInteger<int>("port", "99999999999999999999", 1, 65535).status().message(),
            "port is \"99999999999999999999\", not between 1 and 65535");
  EXPECT_FALSE(ParseInteger<std::uint32_t>("n", "-1").ok());
}

}  // namespace
}  // namespace muster
