#pragma once

// Small text helpers: the few that the standard library lacks and several folders need.
//
// All are pure and total: any bytes may come in. Views returned point into the argument.

#include <charconv>
#include <concepts>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <vector>

#include "common/status.h"

namespace muster {

// The parts between separators, empty ones included: Split("a,,b", ',') has three. "" has one.
std::vector<std::string_view> Split(std::string_view text, char separator);
// Without blanks, tabs and line ends on both sides.
std::string_view Trim(std::string_view text);
std::string Join(const std::vector<std::string>& parts, std::string_view separator);
// For messages: in double quotes, unprintable bytes as \xNN, cut after 200 bytes with "...".
std::string Quote(std::string_view text);

namespace text_internal {
inline void Append(std::string& out, std::string_view part) { out += part; }
inline void Append(std::string& out, char part) { out += part; }
template <std::integral T>
requires(!std::same_as<T, char>) void Append(std::string& out, T part) {
  if constexpr (std::same_as<T, bool>) {
    out += part ? "true" : "false";
  } else {
    out += std::to_string(part);
  }
}
Status NotAnInteger(std::string_view what, std::string_view text);
Status NotInRange(std::string_view what, std::string_view text, const std::string& low,
                  const std::string& high);
}  // namespace text_internal

// The parts one after another: texts, characters, integers and bools.
template <typename... Parts>
std::string Concat(const Parts&... parts) {
  std::string out;
  (text_internal::Append(out, parts), ...);
  return out;
}

// The whole text as a decimal integer within [low, high]. `what` names the thing in the error, as
// in "SLURM_NTASKS is "x", not a whole number". No blanks, no plus sign, no other base.
template <std::integral T>
Result<T> ParseInteger(std::string_view what, std::string_view text,
                       T low = std::numeric_limits<T>::min(),
                       T high = std::numeric_limits<T>::max()) {
  T value{};
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value, 10);
  if (error == std::errc::result_out_of_range && stop == end) {
    return text_internal::NotInRange(what, text, std::to_string(low), std::to_string(high));
  }
  if (error != std::errc() || stop != end) return text_internal::NotAnInteger(what, text);
  if (value < low || value > high) {
    return text_internal::NotInRange(what, text, std::to_string(low), std::to_string(high));
  }
  return value;
}

}  // namespace muster
