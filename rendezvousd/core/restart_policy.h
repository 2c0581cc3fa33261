#pragma once

// What follows a failed round: another try after a pause, or the end with which exit code. Pure:
// the run's history of failures is its only state.
//
//   * Each cause has a budget; a person's wish and growth cost nothing.
//   * No restart from nothing: a failure of the code is tried again only after progress since the
//     last start. Without progress the run ends with the worker's own exit code, or as
//     deterministic if it is the failure of the round before once more.
//   * KILL or TERM from outside is no failure of the code: charged to kAgent, progress or not.
//   * Tries without progress in between wait 0, 1, 4, 15 s.
//   * Every 24 h of a round with progress give one restart back to each cause.

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "common/time.h"
#include "rendezvousd/protocol/config.h"
#include "rendezvousd/protocol/messages.h"

namespace muster::core {

// Two failures of the code are the same one if these are equal.
struct FailureSignature {
  std::int32_t exit_code = 0;
  std::string last_line;
  bool operator==(const FailureSignature&) const = default;
};

struct RoundFailure {
  protocol::Blame blame;
  std::optional<FailureSignature> signature;  // of a worker
  bool progressed = false;                    // since the round started
  Duration ran{};
};

struct Ruling {
  bool again = false;
  Duration pause{};           // if again
  protocol::Verdict verdict;  // if not
};

// A round that ran this long counts as progress, for programs that show none.
inline constexpr Duration kRunningIsProgress = std::chrono::minutes(10);
// This much progress gives one restart back.
inline constexpr Duration kForgiveAfter = std::chrono::hours(24);

// What a worker's exit is charged to: kCode becomes kAgent for KILL and TERM from outside.
protocol::Cause ChargedCause(const protocol::WorkerExited& exit);

class RestartPolicy {
 public:
  Ruling Rule(const protocol::Config& config, const RoundFailure& failure);

  std::uint32_t Spent(protocol::Cause cause) const;

 private:
  Ruling Close(const protocol::Blame& blame, std::int32_t exit_code, std::string_view why) const;

  std::map<protocol::Cause, std::uint32_t> spent_;
  std::uint32_t tries_without_progress_ = 0;
  std::optional<FailureSignature> last_signature_;
};

}  // namespace muster::core
