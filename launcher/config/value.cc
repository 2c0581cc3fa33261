#include "launcher/config/value.h"

#include <algorithm>
#include <cctype>
#include <vector>

#include "common/text.h"

namespace muster::config {
namespace {

// A name becomes a folder's name; file systems allow 255 bytes and we add to it.
constexpr std::size_t kNameBytesMax = 128;

Result<int> Whole(std::string_view text, int low, int high) {
  return ParseInteger<int>("the value", text, low, high);
}

bool IsLetter(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; }
bool IsLetterOrDigit(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; }

bool IsVariableName(std::string_view text) {
  return !text.empty() && (IsLetter(text[0]) || text[0] == '_') &&
         std::ranges::all_of(text, [](char c) { return IsLetterOrDigit(c) || c == '_'; });
}

Status Right(std::string_view what) { return InvalidArgument(std::string(what)); }

Status CheckName(std::string_view text) {
  const bool good = !text.empty() && text.size() <= kNameBytesMax && IsLetterOrDigit(text[0]) &&
                    std::ranges::all_of(text, [](char c) {
                      return IsLetterOrDigit(c) || c == '.' || c == '_' || c == '-';
                    });
  if (good) return OkStatus();
  return Right(
      "give a name of letters, digits, '.', '_' and '-' that begins with a letter or digit, at "
      "most 128 long");
}

}  // namespace

Result<NodeRange> ParseNodeRange(std::string_view text) {
  // Slurm writes MIN-MAX; hands that know it may too.
  const std::vector<std::string_view> parts =
      Split(text, text.find(':') == std::string_view::npos ? '-' : ':');
  const Status wrong = Right("give the nodes as MIN or MIN:MAX, such as 4 or 2:4");
  if (parts.size() > 2) return wrong;
  const Result<int> min = Whole(parts[0], 1, kMaxNodes);
  const Result<int> max = Whole(parts.back(), 1, kMaxNodes);
  if (!min.ok() || !max.ok()) return wrong;
  if (*min > *max) {
    return InvalidArgument(Concat("the minimum ", *min, " is above the maximum ", *max,
                                  "; give MIN:MAX with MIN at most MAX, such as ", *max, ":",
                                  *min));
  }
  return NodeRange{*min, *max};
}

Result<LocalShape> ParseLocalShape(std::string_view text) {
  if (text.empty()) return LocalShape{};
  const std::vector<std::string_view> parts = Split(text, 'x');
  const Status wrong = Right("give N workers or HxN (H nodes of N workers), such as 4 or 2x2");
  if (parts.size() > 2) return wrong;
  const Result<int> workers = Whole(parts.back(), 1, kMaxWorkersPerNode);
  const Result<int> nodes = parts.size() == 1 ? Result<int>(1) : Whole(parts[0], 1, 1024);
  if (!workers.ok() || !nodes.ok()) return wrong;
  return LocalShape{*nodes, *workers};
}

Result<std::uint32_t> ParseShow(std::string_view text) {
  if (text == "all") return kShowAll;
  if (text == "rank0") return std::uint32_t{0};
  const Result<std::uint32_t> count = ParseInteger<std::uint32_t>("the value", text);
  if (count.ok()) return *count;
  return Right("give all, rank0 or a number of workers");
}

Result<bool> ParseFlag(std::string_view text) {
  if (text == "yes" || text == "true" || text == "on" || text == "1") return true;
  if (text == "no" || text == "false" || text == "off" || text == "0") return false;
  return Right("give yes or no");
}

Status CheckValue(const Option& option, std::string_view text) {
  if (text.find('\0') != std::string_view::npos) return Right("give a text without zero bytes");
  switch (option.kind) {
    case Kind::kFlag:
      return ParseFlag(text).status();
    case Kind::kText:
    case Kind::kList:
      return text.empty() ? Right("give a text") : OkStatus();
    case Kind::kName:
      return CheckName(text);
    case Kind::kPath:
      return text.empty() ? Right("give a path") : OkStatus();
    case Kind::kCount:
      if (Whole(text, option.low, kMaxNodes).ok()) return OkStatus();
      return Right(Concat("give a whole number from ", option.low, " to ", kMaxNodes));
    case Kind::kTime:
      if (ParseDuration(text).ok()) return OkStatus();
      return Right("give a time such as 250ms, 5s, 30m or 2h");
    case Kind::kNodes:
      return ParseNodeRange(text).status();
    case Kind::kLocal:
      return ParseLocalShape(text).status();
    case Kind::kShow:
      return ParseShow(text).status();
    case Kind::kAssignment:
      if (IsVariableName(text.substr(0, text.find('=')))) return OkStatus();
      return Right("give NAME or NAME=VALUE with NAME of letters, digits and '_'");
    case Kind::kPage:
      if (text.empty() || text == "muster" || text == "environment") return OkStatus();
      return Right("give muster or environment");
  }
  return OkStatus();
}

}  // namespace muster::config
