#include "common/count_list.h"

#include "common/text.h"

namespace muster {

Result<std::vector<int>> ExpandCountList(std::string_view what, std::string_view list) {
  std::vector<int> counts;
  const std::string name = Concat("a part of ", what, "=", Quote(list));
  for (std::string_view part : Split(list, ',')) {
    int repeat = 1;
    if (const std::size_t open = part.find("(x"); open != std::string_view::npos) {
      if (part.back() != ')') {
        return InvalidArgument(Concat(name, " has a ( without its ); expected e.g. 2(x3),1"));
      }
      MUSTER_ASSIGN_OR_RETURN(
          repeat, ParseInteger<int>(name, part.substr(open + 2, part.size() - open - 3), 1,
                                    static_cast<int>(kMaxCounts)));
      part = part.substr(0, open);
    }
    MUSTER_ASSIGN_OR_RETURN(const int count, ParseInteger<int>(name, part, 0, kMaxCount));
    if (counts.size() + static_cast<std::size_t>(repeat) > kMaxCounts) {
      return InvalidArgument(Concat(name, " makes it longer than ", kMaxCounts, " nodes"));
    }
    counts.insert(counts.end(), static_cast<std::size_t>(repeat), count);
  }
  return counts;
}

std::string CompressCountList(const std::vector<int>& counts) {
  std::string out;
  for (std::size_t i = 0; i < counts.size();) {
    std::size_t end = i;
    while (end < counts.size() && counts[end] == counts[i]) ++end;
    if (i > 0) out += ',';
    out += std::to_string(counts[i]);
    if (end > i + 1) out += Concat("(x", end - i, ')');
    i = end;
  }
  return out;
}

}  // namespace muster
