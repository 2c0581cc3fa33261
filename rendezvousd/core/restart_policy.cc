#include "rendezvousd/core/restart_policy.h"

#include <algorithm>
#include <array>

#include "common/text.h"
#include "rendezvousd/core/exit_codes.h"
#include "rendezvousd/core/naming.h"

namespace muster::core {
namespace {

using protocol::Cause;

constexpr std::int32_t kSigKill = 9;
constexpr std::int32_t kSigTerm = 15;

Duration PauseBefore(std::uint32_t tries_without_progress) {
  constexpr std::array<std::int64_t, 4> kSeconds = {0, 1, 4, 15};
  const std::size_t index = std::min<std::size_t>(tries_without_progress, kSeconds.size() - 1);
  return std::chrono::seconds(kSeconds[index]);
}

bool IsFree(Cause cause) { return cause == Cause::kOperator || cause == Cause::kGrow; }

}  // namespace

Cause ChargedCause(const protocol::WorkerExited& exit) {
  const bool from_outside = exit.signal == kSigKill || exit.signal == kSigTerm;
  return exit.cause == Cause::kCode && from_outside ? Cause::kAgent : exit.cause;
}

std::uint32_t RestartPolicy::Spent(Cause cause) const {
  const auto found = spent_.find(cause);
  return found == spent_.end() ? 0 : found->second;
}

Ruling RestartPolicy::Close(const protocol::Blame& blame, std::int32_t exit_code,
                            std::string_view why) const {
  Ruling ruling;
  ruling.verdict.outcome = protocol::Outcome::kFailed;
  ruling.verdict.exit_code = exit_code;
  ruling.verdict.blame = blame;
  ruling.verdict.blame.text += Concat("; ", why);
  return ruling;
}

Ruling RestartPolicy::Rule(const protocol::Config& config, const RoundFailure& failure) {
  const Cause cause = failure.blame.cause;
  if (IsFree(cause)) return {.again = true, .pause = {}, .verdict = {}};

  if (failure.progressed) {
    tries_without_progress_ = 0;
    const auto given_back = static_cast<std::uint32_t>(failure.ran / kForgiveAfter);
    for (auto& [unused, spent] : spent_) spent -= std::min(spent, given_back);
  }
  const std::uint32_t allowed = protocol::RestartsAllowed(config, cause);
  const std::int32_t own_code = RunExitCode(failure.blame.exit_code);
  if (cause == Cause::kCode) {
    const bool repeated = failure.signature && failure.signature == last_signature_;
    last_signature_ = failure.signature;
    if (!failure.progressed && repeated) {
      return Close(failure.blame, kExitDeterministic,
                   "the same failure again without progress in between");
    }
    if (!failure.progressed) {
      return Close(failure.blame, own_code,
                   "no progress since the start, so it is not tried again");
    }
  }
  if (allowed == 0) {
    return Close(failure.blame, failure.blame.exit_code != 0 ? own_code : kExitBudgetSpent,
                 Concat("no restart is allowed for cause ", ToString(cause)));
  }
  if (Spent(cause) >= allowed) {
    return Close(failure.blame, kExitBudgetSpent,
                 Concat("the budget of ", Count(allowed, "restart"), " for cause ", ToString(cause),
                        " is spent"));
  }
  if (allowed != protocol::kUnboundedRestarts) ++spent_[cause];
  Ruling ruling;
  ruling.again = true;
  ruling.pause = PauseBefore(tries_without_progress_);
  ++tries_without_progress_;
  return ruling;
}

}  // namespace muster::core
