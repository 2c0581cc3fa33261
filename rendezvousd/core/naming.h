#pragma once

// How the core names things in sentences: short lists, signals, ranks. Pure.

#include <cstdint>
#include <string>
#include <vector>

#include "common/time.h"
#include "rendezvousd/protocol/messages.h"

namespace muster::core {

// "n3, n4, n5 and 7 more"; `names` may hold fewer than `total`.
std::string ListNames(const std::vector<std::string>& names, std::size_t total);
inline std::string ListNames(const std::vector<std::string>& names) {
  return ListNames(names, names.size());
}
// Names worth collecting for ListNames.
inline constexpr std::size_t kNamesShown = 3;

// "1 node", "2 nodes"
std::string Count(std::uint64_t number, std::string_view noun);

// "12 s", "30 min", "0.4 s": DescribeDuration without zeros behind; a negative one is "0 s".
std::string Lasting(Duration duration);

// "signal 9 (SIGKILL)"
std::string SignalName(std::int32_t number);

// "rank 3 on n2 exited with code 1: last line", "rank 3 on n2 was killed by signal 9 (SIGKILL)"
std::string DescribeExit(std::int32_t rank, const std::string& node,
                         const protocol::WorkerExited& exit);

// At most limits::kTextBytesMax bytes, cut at a whole UTF-8 character.
std::string Limited(std::string_view text);

}  // namespace muster::core
