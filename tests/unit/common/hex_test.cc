#include "common/hex.h"

#include <gtest/gtest.h>

#include "common/entropy.h"

namespace muster {
namespace {

TEST(HexTest, EncodesAndDecodes) {
  EXPECT_EQ(HexEncode(std::string("\x00\x7f\xff", 3)), "007fff");
  EXPECT_EQ(HexDecode("007FfF").value(), std::string("\x00\x7f\xff", 3));
  EXPECT_EQ(HexDecode("").value(), "");
}

TEST(HexTest, RefusesWithoutRepeatingTheText) {
  for (const char* text : {"5ec", "5ecrets!", "0x12", "5e c"}) {
    const auto decoded = HexDecode(text);
    ASSERT_FALSE(decoded.ok()) << text;
    EXPECT_EQ(decoded.status().message().find(text), std::string::npos);
  }
}

TEST(HexTest, ComparesSecrets) {
  EXPECT_TRUE(SecretsEqual("", ""));
  EXPECT_TRUE(SecretsEqual("abc", "abc"));
  EXPECT_FALSE(SecretsEqual("abc", "abd"));
  EXPECT_FALSE(SecretsEqual("abc", "xbc"));
  EXPECT_FALSE(SecretsEqual("abc", "abcd"));
  EXPECT_FALSE(SecretsEqual("abc", ""));
}

TEST(EntropyTest, GivesAsManyBytesAsAskedAndNeverTheSame) {
  const std::string a = RandomBytes(1000).value();
  const std::string b = RandomBytes(1000).value();
  EXPECT_EQ(a.size(), 1000U);
  EXPECT_NE(a, b);
  EXPECT_NE(a.substr(984), std::string(16, '\0'));
  EXPECT_EQ(RandomBytes(0).value(), "");
  EXPECT_NE(RandomSeed().value(), RandomSeed().value());
  EXPECT_EQ(HexDecode(HexEncode(a)).value(), a);
}

}  // namespace
}  // namespace muster
