#include "common/backoff.h"

#include <gtest/gtest.h>

namespace muster {
namespace {

using std::chrono::milliseconds;

TEST(BackoffTest, DoublesUpToTheMaximum) {
  Backoff backoff({.initial = milliseconds(50), .maximum = milliseconds(300), .jitter = 0.0});
  Random random(1);
  for (const int expected : {50, 100, 200, 300, 300}) {
    EXPECT_EQ(backoff.Next(random), milliseconds(expected));
  }
  backoff.Reset();
  EXPECT_EQ(backoff.Next(random), milliseconds(50));
}

TEST(BackoffTest, JitterStaysInItsShareAndSpreads) {
  Random random(2);
  Duration least = milliseconds(1000);
  Duration most{};
  for (int i = 0; i < 1000; ++i) {
    Backoff backoff({.initial = milliseconds(100), .jitter = 0.5});
    const Duration delay = backoff.Next(random);
    least = std::min(least, delay);
    most = std::max(most, delay);
  }
  EXPECT_GE(least, milliseconds(50));
  EXPECT_LE(most, milliseconds(100));
  EXPECT_LT(least, milliseconds(55));
  EXPECT_GT(most, milliseconds(95));
}

TEST(BackoffTest, TheSameSeedGivesTheSameDelays) {
  Backoff a({});
  Backoff b({});
  Random random_a(3);
  Random random_b(3);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(a.Next(random_a), b.Next(random_b));
}

}  // namespace
}  // namespace muster
