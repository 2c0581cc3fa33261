#pragma once

// Time as the machines see it: monotonic, in nanoseconds, passed in as an argument. The cores never
// read a clock; programs read it through Clock, simulations move their own.

#include <chrono>
#include <string>
#include <string_view>

#include "common/status.h"

namespace muster {

using Duration = std::chrono::nanoseconds;
// A monotonic instant. Its zero is arbitrary: only differences mean anything outside one process.
using TimePoint = std::chrono::time_point<std::chrono::steady_clock, Duration>;

inline TimePoint SteadyNow() { return std::chrono::steady_clock::now(); }

// "250ms", "5s", "30m", "2h", "1d", "1.5s"; a bare number is seconds. Refuses negatives, unknown
// units and values above 366 days, naming the text.
Result<Duration> ParseDuration(std::string_view text);
// The shortest text that ParseDuration reads back to the same value: "5s", "250ms", "1h30m".
std::string FormatDuration(Duration duration);
// Seconds with one decimal for people: "3.4 s", "12 min 5 s".
std::string DescribeDuration(Duration duration);

}  // namespace muster
