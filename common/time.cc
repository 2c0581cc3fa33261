#include "common/time.h"

#include <array>
#include <cstdint>
#include <cstdio>

#include "common/text.h"

namespace muster {
namespace {

constexpr std::int64_t kSecond = 1'000'000'000;
constexpr std::int64_t kMinute = 60 * kSecond;
constexpr std::int64_t kHour = 60 * kMinute;
constexpr std::int64_t kDay = 24 * kHour;
// No wait of a training job is longer; more is a slip of the unit.
constexpr std::int64_t kLongest = 366 * kDay;

struct Unit {
  std::string_view name;
  std::int64_t nanoseconds;
};
// Largest first: a compound text must come down this list.
constexpr std::array<Unit, 7> kUnits = {{{"d", kDay},
                                         {"h", kHour},
                                         {"m", kMinute},
                                         {"s", kSecond},
                                         {"ms", 1'000'000},
                                         {"us", 1'000},
                                         {"ns", 1}}};

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// Takes the digits at the front of text.
std::string_view TakeDigits(std::string_view& text) {
  std::size_t length = 0;
  while (length < text.size() && IsDigit(text[length])) ++length;
  const std::string_view digits = text.substr(0, length);
  text.remove_prefix(length);
  return digits;
}

Status Refuse(std::string_view text, std::string_view reason) {
  return InvalidArgument(
      Concat("duration ", Quote(text), " ", reason, "; write it like 250ms, 5s, 30m, 2h, 1h30m"));
}

// The fraction `digits` (after the point) of one unit; false if it is no whole number of ns.
bool FractionOf(std::int64_t unit, std::string_view digits, std::int64_t& out) {
  while (!digits.empty() && digits.back() == '0') digits.remove_suffix(1);
  if (digits.size() > 9) return false;
  std::int64_t billionths = 0;
  for (std::size_t i = 0; i < 9; ++i) {
    billionths = billionths * 10 + (i < digits.size() ? digits[i] - '0' : 0);
  }
  if (unit >= kSecond) {
    out = billionths * (unit / kSecond);
    return true;
  }
  out = billionths / (kSecond / unit);
  return billionths % (kSecond / unit) == 0;
}

// "1.25" and "s" for 1,250,000,000 and the second.
std::string Decimal(std::int64_t value, const Unit& unit) {
  std::string out = std::to_string(value / unit.nanoseconds);
  std::int64_t rest = value % unit.nanoseconds;
  if (rest > 0) out += '.';
  for (std::int64_t digit = unit.nanoseconds / 10; rest > 0; digit /= 10) {
    out += static_cast<char>('0' + rest / digit);
    rest %= digit;
  }
  out += unit.name;
  return out;
}

}  // namespace

Result<Duration> ParseDuration(std::string_view text) {
  std::string_view rest = Trim(text);
  if (rest.empty()) return Refuse(text, "is empty");
  if (rest.front() == '-') return Refuse(text, "is negative");
  std::int64_t total = 0;
  std::size_t next_unit = 0;  // the largest unit that may still come
  bool fraction_seen = false;
  bool first = true;
  while (!rest.empty()) {
    const std::string_view whole = TakeDigits(rest);
    if (whole.empty()) return Refuse(text, "has no number where one is expected");
    if (fraction_seen) return Refuse(text, "has a fraction before its last part");
    std::string_view fraction;
    if (!rest.empty() && rest.front() == '.') {
      rest.remove_prefix(1);
      fraction = TakeDigits(rest);
      if (fraction.empty()) return Refuse(text, "has a point without digits behind it");
      fraction_seen = true;
    }
    std::size_t length = 0;
    while (length < rest.size() && !IsDigit(rest[length])) ++length;
    std::string_view name = rest.substr(0, length);
    rest.remove_prefix(length);
    if (name.empty()) {
      if (!first) return Refuse(text, "ends with a number without a unit");
      name = "s";
    }
    std::size_t index = 0;
    while (index < kUnits.size() && kUnits[index].name != name) ++index;
    if (index == kUnits.size()) return Refuse(text, "has an unknown unit (d, h, m, s, ms, us, ns)");
    if (index < next_unit) return Refuse(text, "has its units in the wrong order");
    const std::int64_t unit = kUnits[index].nanoseconds;
    // Ten digits of days overflow; ns need seventeen.
    const auto count = ParseInteger<std::int64_t>("number", whole);
    std::int64_t part = 0;
    if (!count.ok() || count.value() > kLongest / unit) return Refuse(text, "is over 366 days");
    if (!FractionOf(unit, fraction, part)) return Refuse(text, "is finer than a nanosecond");
    total += count.value() * unit + part;
    if (total > kLongest) return Refuse(text, "is over 366 days");
    next_unit = index + 1;
    first = false;
  }
  return Duration(total);
}

std::string FormatDuration(Duration duration) {
  std::int64_t rest = duration.count();
  if (rest == 0) return "0s";
  std::string out;
  if (rest < 0) {
    // The one value without a positive twin; nothing comes near it.
    if (rest == std::numeric_limits<std::int64_t>::min()) ++rest;
    out = "-";
    rest = -rest;
  }
  for (std::size_t i = 0; i < 3; ++i) {
    const Unit& unit = kUnits[i];
    if (rest >= unit.nanoseconds) {
      out += std::to_string(rest / unit.nanoseconds);
      out += unit.name;
      rest %= unit.nanoseconds;
    }
  }
  for (std::size_t i = 3; i < kUnits.size() && rest > 0; ++i) {
    if (rest >= kUnits[i].nanoseconds) return out + Decimal(rest, kUnits[i]);
  }
  return out;
}

std::string DescribeDuration(Duration duration) {
  const std::int64_t value = duration.count();
  const std::string sign = value < 0 ? "-" : "";
  const auto absolute =
      value < 0 ? ~static_cast<std::uint64_t>(value) + 1 : static_cast<std::uint64_t>(value);
  const std::uint64_t tenths = (absolute + 50'000'000) / 100'000'000;
  if (tenths < 600) {
    return Concat(sign, tenths / 10, '.', tenths % 10, " s");
  }
  const std::uint64_t seconds = (absolute + 500'000'000) / 1'000'000'000;
  const std::uint64_t minutes = seconds / 60;
  if (minutes < 60) return Concat(sign, minutes, " min ", seconds % 60, " s");
  const std::uint64_t hours = minutes / 60;
  if (hours < 24) return Concat(sign, hours, " h ", minutes % 60, " min");
  return Concat(sign, hours / 24, " d ", hours % 24, " h");
}

}  // namespace muster
