#include "common/time.h"

#include <gtest/gtest.h>

#include "common/random.h"
#include "common/text.h"

namespace muster {
namespace {

using std::chrono::hours;
using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::nanoseconds;
using std::chrono::seconds;

struct Case {
  const char* text;
  Duration value;
};

TEST(TimeTest, ParsesWhatPeopleWrite) {
  for (const Case& c :
       {Case{"250ms", milliseconds(250)}, Case{"5s", seconds(5)}, Case{"30m", minutes(30)},
        Case{"2h", hours(2)}, Case{"1d", hours(24)}, Case{"1.5s", milliseconds(1500)},
        Case{"7", seconds(7)}, Case{"0.25", milliseconds(250)}, Case{"1h30m", minutes(90)},
        Case{"1d2h3m4s5ms6us7ns", hours(26) + minutes(3) + seconds(4) + milliseconds(5) +
                                      microseconds(6) + nanoseconds(7)},
        Case{"0", seconds(0)}, Case{"0s", seconds(0)}, Case{"90m", minutes(90)},
        Case{"1m1.5s", milliseconds(61500)}, Case{"0.5d", hours(12)}, Case{" 5s\n", seconds(5)},
        Case{"366d", hours(366 * 24)}, Case{"1.500000000000s", milliseconds(1500)},
        Case{"0.000001ms", nanoseconds(1)}}) {
    const Result<Duration> parsed = ParseDuration(c.text);
    ASSERT_TRUE(parsed.ok()) << parsed.status().ToString();
    EXPECT_EQ(parsed.value(), c.value) << c.text;
  }
}

TEST(TimeTest, RefusesAndNamesTheText) {
  for (const char* text : {"",
                           " ",
                           "-5s",
                           "5x",
                           "5 s",
                           "s",
                           "ms",
                           "1.s",
                           ".5s",
                           "1h30",
                           "1m1h",
                           "1s1s",
                           "1.5h3m",
                           "367d",
                           "366d1ns",
                           "99999999999999999999s",
                           "0.0000000001s",
                           "0.1ns",
                           "+5s",
                           "5S",
                           "1e3s",
                           "inf",
                           "5s-1s"}) {
    const Result<Duration> parsed = ParseDuration(text);
    ASSERT_FALSE(parsed.ok()) << text;
    EXPECT_EQ(parsed.status().code(), StatusCode::kInvalidArgument);
    EXPECT_NE(parsed.status().message().find(Quote(text)), std::string::npos)
        << parsed.status().message();
  }
}

TEST(TimeTest, FormatsTheShortestText) {
  for (const Case& c :
       {Case{"0s", seconds(0)}, Case{"5s", seconds(5)}, Case{"250ms", milliseconds(250)},
        Case{"1h30m", minutes(90)}, Case{"1.5s", milliseconds(1500)}, Case{"1d", hours(24)},
        Case{"1.5ms", microseconds(1500)}, Case{"1ns", nanoseconds(1)},
        Case{"1m1ns", minutes(1) + nanoseconds(1)}, Case{"1h5ms", hours(1) + milliseconds(5)}}) {
    EXPECT_EQ(FormatDuration(c.value), c.text);
  }
  EXPECT_EQ(FormatDuration(-seconds(5)), "-5s");
  EXPECT_FALSE(FormatDuration(Duration::min()).empty());
}

TEST(TimeTest, RandomDurationsComeBack) {
  Random random(7);
  for (int i = 0; i < 20000; ++i) {
    // All magnitudes and many round values.
    std::int64_t value = static_cast<std::int64_t>(random() >> random.Between(1, 60));
    std::int64_t round = 1;
    for (std::int64_t zeros = random.Between(0, 9); zeros > 0; --zeros) round *= 10;
    value -= value % round;
    value %= 366LL * 86400 * 1'000'000'000;
    const Duration duration(value);
    const Result<Duration> back = ParseDuration(FormatDuration(duration));
    ASSERT_TRUE(back.ok()) << FormatDuration(duration) << ": " << back.status().ToString();
    ASSERT_EQ(back.value(), duration) << FormatDuration(duration);
  }
}

TEST(TimeTest, DescribesForPeople) {
  EXPECT_EQ(DescribeDuration(milliseconds(3400)), "3.4 s");
  EXPECT_EQ(DescribeDuration(milliseconds(40)), "0.0 s");
  EXPECT_EQ(DescribeDuration(milliseconds(59940)), "59.9 s");
  EXPECT_EQ(DescribeDuration(milliseconds(59960)), "1 min 0 s");
  EXPECT_EQ(DescribeDuration(seconds(725)), "12 min 5 s");
  EXPECT_EQ(DescribeDuration(minutes(125)), "2 h 5 min");
  EXPECT_EQ(DescribeDuration(hours(51)), "2 d 3 h");
  EXPECT_EQ(DescribeDuration(-milliseconds(3400)), "-3.4 s");
  EXPECT_FALSE(DescribeDuration(Duration::min()).empty());
}

}  // namespace
}  // namespace muster
