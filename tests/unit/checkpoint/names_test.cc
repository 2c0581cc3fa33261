#include "checkpoint/names.h"

#include <gtest/gtest.h>

namespace muster::checkpoint {
namespace {

TEST(Names, EntriesRoundTrip) {
  EXPECT_EQ(EntryName(42), "step-000000000042");
  EXPECT_EQ(EntryName(1'000'000'000'000), "step-1000000000000");
  for (std::uint64_t step : {0ull, 1ull, 42ull, 999'999'999'999ull, 1'000'000'000'000ull}) {
    EXPECT_EQ(ParseEntryName(EntryName(step)), step);
  }
}

TEST(Names, OnlyOurOwnSpellingIsAnEntry) {
  for (const char* name :
       {"", "step-", "step-42", "step-0000000000042", "step-00000000004x", "step-+00000000042",
        "step--00000000042", "step-000000000042 ", "Step-000000000042", "step-000000000042.tmp",
        "step-99999999999999999999999", ".tmp-42-0000000000000000", "42"}) {
    EXPECT_FALSE(ParseEntryName(name).has_value()) << name;
  }
}

TEST(Names, LeftoversShowWhoseTheyAre) {
  for (LeftoverKind kind : {LeftoverKind::kTemporary, LeftoverKind::kTrash}) {
    const auto name = MakeLeftoverName(kind, "run1 of job 7", 42);
    ASSERT_TRUE(name.ok());
    const auto leftover = ParseLeftoverName(*name);
    ASSERT_TRUE(leftover.has_value()) << *name;
    EXPECT_EQ(leftover->kind, kind);
    EXPECT_EQ(leftover->step, 42u);
    EXPECT_EQ(leftover->run_tag, RunTag("run1 of job 7"));
    EXPECT_NE(*MakeLeftoverName(kind, "run1 of job 7", 42), *name);
    EXPECT_FALSE(ParseEntryName(*name).has_value());
  }
  EXPECT_NE(RunTag("run1"), RunTag("run2"));
  for (const char* name : {"", ".tmp-", ".tmp-1", ".tmp-1-", ".tmp-1-0123",
                           ".tmp-x-0123456789abcdef", ".tmp-1-0123456789abcdeg",
                           "tmp-1-0123456789abcdef", ".trash-1", ".tmp-1-0123456789ABCDEF"}) {
    EXPECT_FALSE(ParseLeftoverName(name).has_value()) << name;
  }
}

}  // namespace
}  // namespace muster::checkpoint
