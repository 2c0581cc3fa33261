#pragma once

// The exit codes that the machine puts into verdicts, and what becomes of a worker's own. The
// numbers are those of proto/environment.h, which the core may not include; a test compares them.

#include <cstdint>

namespace muster::core {

inline constexpr std::int32_t kExitDone = 0;
inline constexpr std::int32_t kExitCouldNotForm = 69;
inline constexpr std::int32_t kExitGoesOnLater = 75;
inline constexpr std::int32_t kExitBudgetSpent = 121;
inline constexpr std::int32_t kExitDeterministic = 122;
inline constexpr std::int32_t kExitStopped = 123;
inline constexpr std::int32_t kExitTimeLimit = 124;

// The run's exit code for a worker's: its own, but 1 where that would read as one of ours. Never 0.
constexpr std::int32_t RunExitCode(std::int32_t worker_code) {
  const bool ours =
      (worker_code >= 64 && worker_code <= 75) || (worker_code >= 121 && worker_code <= 124);
  return ours || worker_code <= 0 || worker_code > 255 ? 1 : worker_code;
}

}  // namespace muster::core
