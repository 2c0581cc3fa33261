#pragma once

// Slurm's counts per node: "2(x3),1" is {2, 2, 2, 1}.
//
// Pure; any bytes may come in. What is not understood is InvalidArgument and quotes the list.

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"

namespace muster {

// One count per node: the limit of a host list.
inline constexpr std::size_t kMaxCounts = 65536;
// Tasks or CPUs of one node; Slurm keeps them in 16 bits.
inline constexpr int kMaxCount = 65535;

// `what` names the list in errors, as in "SLURM_TASKS_PER_NODE". The empty list is refused.
Result<std::vector<int>> ExpandCountList(std::string_view what, std::string_view list);

std::string CompressCountList(const std::vector<int>& counts);

}  // namespace muster
