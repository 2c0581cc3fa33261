// The rules that hold after every step. Counted from scratch, so that a count kept by increments
// that goes wrong anywhere is found at once.

#include <algorithm>
#include <set>

#include "common/check.h"
#include "common/text.h"
#include "rendezvousd/core/limits.h"
#include "rendezvousd/core/state.h"

namespace muster::core {
namespace {

void CheckMembership(const Membership& members) {
  std::uint32_t candidates = 0;
  std::uint32_t expected_missing = 0;
  std::uint32_t previous_missing = 0;
  std::uint32_t unfit = 0;
  std::uint32_t unreachable = 0;
  std::uint32_t living = 0;
  std::uint32_t attached = 0;
  std::size_t on_nodes = 0;
  for (const auto& [name, node] : members.nodes()) {
    candidates += node.candidate ? 1 : 0;
    expected_missing += node.missing_expected ? 1 : 0;
    previous_missing += node.missing_previous ? 1 : 0;
    unfit += node.unfit ? 1 : 0;
    unreachable += !node.unfit && node.Unreachable() ? 1U : 0U;
    on_nodes += node.agents.size();
    std::uint32_t well = 0;
    bool suspect = false;
    for (const Agent* agent : node.agents) {
      MUSTER_CHECK(agent->node == &node, "an agent stands on its own node");
      if (agent->Well()) ++well;
      if (agent->presence != Presence::kGone) ++living;
      if (agent->presence == Presence::kAttached) ++attached;
      suspect |= agent->suspect;
    }
    MUSTER_CHECK(node.well == well, name);
    MUSTER_CHECK(node.candidate == (well >= node.required && !suspect && !node.Unreachable()),
                 name);
  }
  MUSTER_CHECK(candidates == members.candidates(), "the count of candidates");
  MUSTER_CHECK(expected_missing == members.expected_missing(), "the count of expected nodes");
  MUSTER_CHECK(previous_missing == members.previous_missing(), "the count of previous members");
  MUSTER_CHECK(unfit == members.unfit(), "the count of unfit nodes");
  MUSTER_CHECK(unreachable == members.unreachable(), "the count of unreachable nodes");
  MUSTER_CHECK(living == members.living(), "the count of living agents");
  MUSTER_CHECK(attached == members.attached(), "the count of attached agents");
  MUSTER_CHECK(on_nodes == members.agents().size(), "every agent stands on one node");
  MUSTER_CHECK(members.agents().size() <= limits::kAgentsMax, "more agents than the limit");
  for (const auto& [key, agent] : members.agents()) {
    MUSTER_CHECK(agent.id.key == key, "an agent stands under its key");
    MUSTER_CHECK(agent.fenced.size() <= limits::kFencedIncarnations, "too many old incarnations");
    MUSTER_CHECK(agent.answers.size() <= limits::kRememberedAnswers, "too many answers");
    MUSTER_CHECK(std::count(agent.fenced.begin(), agent.fenced.end(), agent.id.incarnation) == 0,
                 "the newest incarnation is not fenced");
  }
}

void CheckRanks(const Round& round) {
  std::uint32_t rank = 0;
  std::uint32_t local_rank = 0;
  std::uint32_t node_rank = 0;
  for (std::size_t i = 0; i < round.members.size(); ++i) {
    const protocol::Assignment& own = round.members[i].assignment;
    const std::string& node = round.members[i].id.key.node;
    if (i > 0 && node != round.members[i - 1].id.key.node) {
      ++node_rank;
      local_rank = 0;
    }
    MUSTER_CHECK(node_rank < round.nodes.size() && round.nodes[node_rank] == node,
                 "the ranks of one node are adjacent");
    MUSTER_CHECK(own.node_rank == node_rank && own.node_count == round.nodes.size(), node);
    MUSTER_CHECK(own.first_rank == rank && own.first_local_rank == local_rank,
                 "ranks are 0 to n-1, once each");
    MUSTER_CHECK(own.workers > 0 && own.world_size == round.world_size, node);
    rank += own.workers;
    local_rank += own.workers;
  }
  MUSTER_CHECK(rank == round.world_size, "ranks are 0 to n-1, once each");
  MUSTER_CHECK(node_rank + 1 == round.nodes.size(), "every node of a round has an agent in it");
  MUSTER_CHECK(
      std::set<std::string>(round.nodes.begin(), round.nodes.end()).size() == round.nodes.size(),
      "a node is in a roster once");
}

void CheckMembers(const Round& round, const Membership& members) {
  std::uint32_t not_ready = 0;
  std::uint32_t unwell = 0;
  std::uint32_t done = 0;
  std::size_t of_roster = 0;
  for (std::size_t i = 0; i < round.members.size(); ++i) {
    const Member& member = round.members[i];
    done += member.done;
    not_ready += member.ready ? 0 : 1;
    unwell += member.well ? 0 : 1;
    const Agent* agent = members.Find(member.id.key);
    MUSTER_CHECK(agent != nullptr, "a member is known");
    if (member.agent == nullptr) {
      MUSTER_CHECK(member.AllDone(), "a stale incarnation is in the roster");
      continue;
    }
    ++of_roster;
    MUSTER_CHECK(agent == member.agent && agent->id == member.id, "a stale incarnation");
    MUSTER_CHECK(agent->member == static_cast<std::int32_t>(i), "a member knows its place");
    MUSTER_CHECK(agent->presence != Presence::kGone || member.AllDone(),
                 "an agent that is gone is in the roster");
    if (!round.Active()) MUSTER_CHECK(member.well == agent->Well(), "who is well is known");
  }
  const auto marked = std::count_if(members.agents().begin(), members.agents().end(),
                                    [](const auto& item) { return item.second.member >= 0; });
  MUSTER_CHECK(static_cast<std::size_t>(marked) == of_roster, "only members have a place");
  MUSTER_CHECK(done == round.done && done < round.world_size, "a round ends when all are done");
  if (!round.Active()) {
    MUSTER_CHECK(not_ready == round.not_ready && unwell == round.unwell, "who is ready is known");
    MUSTER_CHECK(not_ready + unwell > 0, "a round starts when all are ready");
  }
}

}  // namespace

void Machine::CheckInvariants(TimePoint now) const {
  const State& state = *state_;
  CheckMembership(state.members);
  const bool has_round = state.phase == Phase::kPreparing || state.phase == Phase::kActive;
  MUSTER_CHECK(state.current.has_value() == has_round, "a roster stands in its phases only");
  if (state.current) {
    const Round& round = *state.current;
    MUSTER_CHECK(round.fence == state.Newest(), "the newest round is the only one");
    MUSTER_CHECK(round.Active() == (state.phase == Phase::kActive), "only an active round runs");
    MUSTER_CHECK(round.nodes.size() >= state.config.min_nodes &&
                     round.nodes.size() <= state.config.max_nodes,
                 "a round has min to max nodes");
    CheckRanks(round);
    CheckMembers(round, state.members);
  }
  state.barriers.CheckInvariants(state.phase == Phase::kActive ? state.current->world_size : 0);
  MUSTER_CHECK(state.keys.size() <= limits::kKeysMax, "more keys than the limit");
  MUSTER_CHECK(state.keys.value_bytes() <= limits::kValueBytesTotalMax, "more values than fit");
  MUSTER_CHECK(state.keys.waiters().size() <= limits::kWaitersMax, "more waiters than the limit");
  for (const auto& [token, place] : state.keys.waiters()) {
    MUSTER_CHECK(!state.barriers.tokens().contains(token), "a token is parked once");
    MUSTER_CHECK(place.first || has_round, "a waiter for a round's key outlived the round");
  }
  MUSTER_CHECK(state.effects.empty(), "effects are handed out by the step that made them");
  const std::optional<TimePoint> next = NextDeadline();
  MUSTER_CHECK(!next || !state.deadlines_done || state.deadlines_done != now || *next > now,
               "a deadline that was stepped stays in the past");
  MUSTER_CHECK((state.verdict.outcome != protocol::Outcome::kNone) == state.Over(),
               "a run that ends has a verdict, and no other");
}

}  // namespace muster::core
