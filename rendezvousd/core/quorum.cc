#include "rendezvousd/core/quorum.h"

#include <algorithm>

#include "common/text.h"
#include "rendezvousd/core/naming.h"

namespace muster::core {
namespace {

// When waiting for the minimum ends; none: never by itself.
std::optional<TimePoint> PatienceEnds(const QuorumInput& input) {
  if (input.sealed_before) {
    if (!input.short_since) return std::nullopt;
    return *input.short_since + input.wait_node;
  }
  std::optional<TimePoint> end;
  if (input.first_agent_at) end = *input.first_agent_at + input.form_timeout;
  if (input.step_ended_at) {
    const TimePoint grace = *input.step_ended_at + kStepEndedGrace;
    end = end ? std::min(*end, grace) : grace;
  }
  return end;
}

// Enough nodes are here: must the seal wait for others?
bool OthersAreWaitedFor(const QuorumInput& input) {
  if (input.candidates >= input.max_nodes) {
    if (input.had_round && input.previous_missing == 0) return false;
    return input.expected_missing > 0;
  }
  return input.expected_missing > 0;
}

}  // namespace

Quorum DecideQuorum(const QuorumInput& input, TimePoint now) {
  if (input.candidates < input.min_nodes) {
    const std::optional<TimePoint> end = PatienceEnds(input);
    if (end && now >= *end) return {QuorumDecision::kGiveUp, std::nullopt};
    return {QuorumDecision::kWait, end};
  }
  Quorum quorum{QuorumDecision::kSeal, std::nullopt};
  if (OthersAreWaitedFor(input)) {
    const TimePoint end = input.last_call_since.value_or(now) + input.last_call;
    if (now < end) quorum = {QuorumDecision::kLastCall, end};
  }
  if (input.not_before && now < *input.not_before) {
    if (quorum.decision == QuorumDecision::kSeal) {
      return {QuorumDecision::kWait, input.not_before};
    }
    quorum.until = std::max(*quorum.until, *input.not_before);
  }
  return quorum;
}

std::string ExplainQuorum(const QuorumInput& input, const std::vector<std::string>& missing,
                          std::size_t missing_total, TimePoint since, TimePoint now) {
  const Quorum quorum = DecideQuorum(input, now);
  std::string out = "waiting";
  if (missing_total > 0) {
    out += Concat(" for ", ListNames(missing, missing_total));
  } else if (input.candidates < input.min_nodes) {
    out += Concat(" for ", Count(input.min_nodes - input.candidates, "more node"));
  } else {
    out += " to start again";
  }
  const std::string wanted = input.min_nodes == input.max_nodes
                                 ? Concat(input.max_nodes)
                                 : Concat(input.min_nodes, " to ", input.max_nodes);
  out += Concat(" (", input.candidates, " of ", wanted, input.max_nodes == 1 ? " node" : " nodes",
                input.candidates == 1 ? " is here)" : " are here)");
  out += Concat(" since ", Lasting(now - since));
  if (quorum.until) {
    out += Concat(", until ", Lasting(*quorum.until - since));
  }
  return out;
}

}  // namespace muster::core
