#include "common/count_list.h"

#include <gtest/gtest.h>

#include "common/random.h"
#include "common/text.h"

namespace muster {
namespace {

TEST(CountListTest, Expands) {
  EXPECT_EQ(ExpandCountList("x", "2(x3),1").value(), (std::vector<int>{2, 2, 2, 1}));
  EXPECT_EQ(ExpandCountList("x", "4(x2)").value(), (std::vector<int>{4, 4}));
  EXPECT_EQ(ExpandCountList("x", "72(x2),36").value(), (std::vector<int>{72, 72, 36}));
  EXPECT_EQ(ExpandCountList("x", "8").value(), (std::vector<int>{8}));
  EXPECT_EQ(ExpandCountList("x", "1(x65536)").value().size(), kMaxCounts);
}

TEST(CountListTest, RefusesAndNamesTheList) {
  for (const char* text :
       {"",           ",",      "2,",    "2(x",       "2(x3",        "2(x)",
        "2(x0)",      "(x3)",   "2(3)",  "2(y3)",     "-1",          "a",
        "2(x3)1",     "2 (x3)", "65536", "1(x65537)", "1(x65536),1", "1(x99999999999999)",
        "2(x3),(x1)", "2(x-1)"}) {
    const auto counts = ExpandCountList("SLURM_TASKS_PER_NODE", text);
    ASSERT_FALSE(counts.ok()) << text;
    EXPECT_EQ(counts.status().code(), StatusCode::kInvalidArgument);
    EXPECT_NE(counts.status().message().find(Concat("SLURM_TASKS_PER_NODE=", Quote(text))),
              std::string::npos)
        << counts.status().message();
  }
}

TEST(CountListTest, RandomListsComeBack) {
  Random random(11);
  for (int round = 0; round < 2000; ++round) {
    std::vector<int> counts(1 + random.Below(20));
    for (int& count : counts) count = static_cast<int>(random.Below(3));
    const std::string text = CompressCountList(counts);
    ASSERT_EQ(ExpandCountList("x", text).value(), counts) << text;
  }
  EXPECT_EQ(CompressCountList({2, 2, 2, 1}), "2(x3),1");
  EXPECT_EQ(CompressCountList({}), "");
}

TEST(CountListTest, RandomBytesNeverCrash) {
  Random random(12);
  constexpr std::string_view kBytes = "0123456789(x),x(- \n";
  for (int round = 0; round < 20000; ++round) {
    std::string text;
    for (std::uint64_t n = random.Below(12); n > 0; --n)
      text += kBytes[random.Below(kBytes.size())];
    const auto counts = ExpandCountList("x", text);
    if (counts.ok()) {
      EXPECT_EQ(ExpandCountList("x", CompressCountList(counts.value())).value(), counts.value());
    }
  }
}

}  // namespace
}  // namespace muster
