#include "common/text.h"

#include "common/escape.h"

namespace muster {
namespace {

constexpr std::string_view kBlanks = " \t\r\n\f\v";
// Longer quotes hide the sentence around them.
constexpr std::size_t kMaxQuotedBytes = 200;

}  // namespace

std::vector<std::string_view> Split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const std::size_t at = text.find(separator);
    parts.push_back(text.substr(0, at));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + 1);
  }
}

std::string_view Trim(std::string_view text) {
  const std::size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

std::string Join(const std::vector<std::string>& parts, std::string_view separator) {
  std::string out;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) out += separator;
    out += parts[i];
  }
  return out;
}

std::string Quote(std::string_view text) {
  std::string out = "\"" + EscapeBytes(text.substr(0, kMaxQuotedBytes), IsControl);
  if (text.size() > kMaxQuotedBytes) out += "...";
  return out + '"';
}

namespace text_internal {

Status NotAnInteger(std::string_view what, std::string_view text) {
  return InvalidArgument(Concat(what, " is ", Quote(text), ", not a whole number"));
}

Status NotInRange(std::string_view what, std::string_view text, const std::string& low,
                  const std::string& high) {
  return InvalidArgument(Concat(what, " is ", Quote(text), ", not between ", low, " and ", high));
}

}  // namespace text_internal
}  // namespace muster
