#pragma once

// What a value of each kind of option looks like. Pure; any text may come in.

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include "common/status.h"
#include "common/time.h"
#include "launcher/config/option_table.h"

namespace muster::config {

// As many nodes as a host list may have (common/host_list.h).
inline constexpr int kMaxNodes = 65536;
// A worker each for all the cores of the largest machine there is, with room.
inline constexpr int kMaxWorkersPerNode = 4096;

struct NodeRange {
  int min = 1;
  int max = 1;
  friend bool operator==(const NodeRange&, const NodeRange&) = default;
};
Result<NodeRange> ParseNodeRange(std::string_view text);

// `--local`, `--local 4`, `--local 2x2`: this machine plays `nodes` nodes.
struct LocalShape {
  int nodes = 1;
  std::optional<int> workers;  // per node; without: as many as --workers-per-node says, else 1
  friend bool operator==(const LocalShape&, const LocalShape&) = default;
};
Result<LocalShape> ParseLocalShape(std::string_view text);

// The world size up to which every worker's output is shown.
inline constexpr std::uint32_t kShowAll = std::numeric_limits<std::uint32_t>::max();
Result<std::uint32_t> ParseShow(std::string_view text);

Result<bool> ParseFlag(std::string_view text);

// OK if the text is a value of the option; else what is right, as in "give a time such as 5s".
Status CheckValue(const Option& option, std::string_view text);

}  // namespace muster::config
