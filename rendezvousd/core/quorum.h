#pragma once

// Whether a round is sealed now, later or never. Pure: counts and times in, a decision out; the
// sentence for people is made apart (Explain), since joins come by the ten thousand and nobody
// reads a sentence for each.
//
//   candidates >= max   seal now if nobody expected is missing, or, after a round, if all members
//   of
//                       it that live are here; else last call
//   min <= c < max      seal now if nobody else can come, else last call
//   candidates < min    wait: before the first seal until form_timeout after the first agent (or a
//                       grace after the agents' step ended); later until wait_node after the loss

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/time.h"

namespace muster::core {

struct QuorumInput {
  std::uint32_t min_nodes = 1;
  std::uint32_t max_nodes = 1;
  std::uint32_t candidates = 0;        // nodes with all their agents here and well
  std::uint32_t expected_missing = 0;  // expected nodes that may still come; not those left out
  std::uint32_t previous_missing =
      0;                       // members of the last round likewise, neither dead nor suspect
  bool had_round = false;      // a round has run in this attempt
  bool sealed_before = false;  // a round was sealed at least, so everybody had been here
  std::optional<TimePoint> first_agent_at;
  std::optional<TimePoint> last_call_since;
  std::optional<TimePoint> short_since;    // candidates are below the minimum since then
  std::optional<TimePoint> step_ended_at;  // the host says that no agent can come any more
  std::optional<TimePoint> not_before;     // the pause of a restart
  Duration form_timeout{};
  Duration last_call{};
  Duration wait_node{};
};

// After the end of the agents' step, for agents that are still on their way to the daemon.
inline constexpr Duration kStepEndedGrace = std::chrono::seconds(10);

enum class QuorumDecision : std::uint8_t { kWait, kLastCall, kSeal, kGiveUp };

struct Quorum {
  QuorumDecision decision = QuorumDecision::kWait;
  std::optional<TimePoint> until;  // decide again then; none: only an event can change it
};

Quorum DecideQuorum(const QuorumInput& input, TimePoint now);

// "waiting for n3, n4 (2 of 4 nodes are here) since 12 s, until 30 min". `missing` are the first
// few of `missing_total` nodes that are waited for.
std::string ExplainQuorum(const QuorumInput& input, const std::vector<std::string>& missing,
                          std::size_t missing_total, TimePoint since, TimePoint now);

}  // namespace muster::core
