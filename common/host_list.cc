#include "common/host_list.h"

#include <cstdint>

#include "common/text.h"

namespace muster {
namespace {

// More digits than any counter of hosts; below what 64 bits hold.
constexpr std::size_t kMaxDigits = 18;

struct Range {
  std::uint64_t low = 0;
  std::uint64_t high = 0;
  std::size_t width = 0;  // of low as written: pads with zeros
};
// Fixed text, then one of the numbers of `ranges`; the last part of an element has no ranges.
struct Part {
  std::string_view text;
  std::vector<Range> ranges;
  std::size_t count = 0;
};

Status Refuse(std::string_view list, std::string_view reason) {
  return InvalidArgument(Concat("host list ", Quote(list), " ", reason,
                                "; give the hosts explicitly with --hosts host1,host2,..."));
}

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

bool IsNameByte(char c) { return c > 0x20 && c < 0x7f; }

std::string Padded(std::uint64_t number, std::size_t width) {
  std::string digits = std::to_string(number);
  if (digits.size() < width) digits.insert(0, width - digits.size(), '0');
  return digits;
}

bool ParseNumber(std::string_view text, std::uint64_t& out) {
  if (text.empty() || text.size() > kMaxDigits) return false;
  out = 0;
  for (const char c : text) {
    if (!IsDigit(c)) return false;
    out = out * 10 + static_cast<std::uint64_t>(c - '0');
  }
  return true;
}

// One "lo-hi" or "n" between brackets.
Result<Range> ParseRange(std::string_view list, std::string_view text) {
  const std::size_t dash = text.find('-');
  const std::string_view low = text.substr(0, dash);
  const std::string_view high = dash == std::string_view::npos ? low : text.substr(dash + 1);
  Range range;
  if (text.empty()) return Refuse(list, "has an empty element between brackets");
  if (!ParseNumber(low, range.low) || !ParseNumber(high, range.high)) {
    return Refuse(list, Concat("has ", Quote(text), " between brackets, not a number or a range"));
  }
  if (range.high < range.low) return Refuse(list, Concat("has the descending range ", Quote(text)));
  if (range.high - range.low >= kMaxHosts) {
    return Refuse(list, Concat("has the range ", Quote(text), " of more than ", kMaxHosts));
  }
  range.width = low.size();
  return range;
}

Result<Part> ParseBracket(std::string_view list, std::string_view text, std::string_view inside) {
  Part part{.text = text, .ranges = {}, .count = 0};
  for (const std::string_view piece : Split(inside, ',')) {
    MUSTER_ASSIGN_OR_RETURN(const Range range, ParseRange(list, piece));
    part.count += range.high - range.low + 1;
    if (part.count > kMaxHosts) return Refuse(list, Concat("has more than ", kMaxHosts, " hosts"));
    part.ranges.push_back(range);
  }
  return part;
}

// One element without its commas, cut into parts.
Result<std::vector<Part>> ParseElement(std::string_view list, std::string_view element) {
  std::vector<Part> parts;
  while (true) {
    const std::size_t open = element.find_first_of("[]");
    if (open == std::string_view::npos) {
      parts.push_back({.text = element, .ranges = {}, .count = 1});
      return parts;
    }
    if (element[open] == ']') return Refuse(list, "has a ] without its [");
    const std::size_t close = element.find_first_of("[]", open + 1);
    if (close == std::string_view::npos || element[close] == '[') {
      return Refuse(list, "has a [ without its ]");
    }
    MUSTER_ASSIGN_OR_RETURN(Part part, ParseBracket(list, element.substr(0, open),
                                                    element.substr(open + 1, close - open - 1)));
    parts.push_back(std::move(part));
    element.remove_prefix(close + 1);
  }
}

// Appends every host of parts[at...], each beginning with `name`.
void Unroll(const std::vector<Part>& parts, std::size_t at, const std::string& name,
            std::vector<std::string>& hosts) {
  const std::string stem = name + std::string(parts[at].text);
  if (at + 1 == parts.size()) {
    hosts.push_back(stem);
    return;
  }
  for (const Range& range : parts[at].ranges) {
    for (std::uint64_t number = range.low; number <= range.high; ++number) {
      Unroll(parts, at + 1, stem + Padded(number, range.width), hosts);
    }
  }
}

Status AppendElement(std::string_view list, std::string_view element,
                     std::vector<std::string>& hosts) {
  if (element.empty()) return Refuse(list, "has an empty element");
  MUSTER_ASSIGN_OR_RETURN(const std::vector<Part> parts, ParseElement(list, element));
  std::size_t count = 1;
  std::size_t length = 0;
  for (const Part& part : parts) {
    count *= part.count;
    // Checked at every step: two factors below 2^16 + 1 cannot overflow.
    if (hosts.size() + count > kMaxHosts) {
      return Refuse(list, Concat("has more than ", kMaxHosts, " hosts"));
    }
    length += part.text.size() + (part.ranges.empty() ? 0 : kMaxDigits);
  }
  if (length > kMaxHostNameBytes) {
    return Refuse(list, Concat("has a host name of more than ", kMaxHostNameBytes, " bytes"));
  }
  Unroll(parts, 0, "", hosts);
  return OkStatus();
}

// A host cut before its last digits.
struct Numbered {
  std::string_view prefix;
  std::uint64_t number = 0;
  std::size_t width = 0;  // 0: no digits, or too many
};

Numbered CutNumber(std::string_view host) {
  std::size_t at = host.size();
  while (at > 0 && IsDigit(host[at - 1])) --at;
  Numbered cut{.prefix = host.substr(0, at)};
  if (ParseNumber(host.substr(at), cut.number)) cut.width = host.size() - at;
  return cut;
}

}  // namespace

Result<std::vector<std::string>> ExpandHostList(std::string_view list) {
  if (list.size() > kMaxHostListBytes) return Refuse(list, "is longer than 4 MiB");
  const std::string_view text = Trim(list);
  std::vector<std::string> hosts;
  if (text.empty()) return hosts;
  bool inside = false;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (!IsNameByte(text[i])) return Refuse(list, "has a blank or an unprintable byte inside");
    if (text[i] == '[') inside = true;
    if (text[i] == ']') inside = false;
    if (text[i] == ',' && !inside) {
      MUSTER_RETURN_IF_ERROR(AppendElement(list, text.substr(begin, i - begin), hosts));
      begin = i + 1;
    }
  }
  MUSTER_RETURN_IF_ERROR(AppendElement(list, text.substr(begin), hosts));
  return hosts;
}

std::string CompressHostList(const std::vector<std::string>& hosts) {
  std::string out;
  std::size_t i = 0;
  while (i < hosts.size()) {
    if (i > 0) out += ',';
    const Numbered first = CutNumber(hosts[i]);
    // All following hosts with the same prefix go into one pair of brackets.
    std::string inside;
    std::size_t end = i;
    while (end < hosts.size()) {
      const Numbered low = CutNumber(hosts[end]);
      if (low.width == 0 || low.prefix != first.prefix) break;
      std::uint64_t high = low.number;
      std::size_t next = end + 1;
      while (next < hosts.size() && next - end < kMaxHosts) {
        const Numbered cut = CutNumber(hosts[next]);
        const std::string expected = Padded(high + 1, low.width);
        if (cut.width != expected.size() || cut.prefix != first.prefix || cut.number != high + 1) {
          break;
        }
        ++high;
        ++next;
      }
      if (!inside.empty()) inside += ',';
      inside += Padded(low.number, low.width);
      if (next > end + 1) inside += Concat('-', Padded(high, low.width));
      end = next;
    }
    if (end <= i + 1) {
      out += hosts[i];
      ++i;
    } else {
      out += Concat(first.prefix, '[', inside, ']');
      i = end;
    }
  }
  return out;
}

}  // namespace muster
