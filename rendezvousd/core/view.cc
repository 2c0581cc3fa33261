// What people are shown: who is here, and for whom it is waited, since when and until.

#include <algorithm>
#include <utility>

#include "common/text.h"
#include "rendezvousd/core/naming.h"
#include "rendezvousd/core/state.h"

namespace muster::core {
namespace {

std::string Since(TimePoint since, TimePoint now) {
  return Concat(" since ", Lasting(now - since));
}

std::string Until(TimePoint until, TimePoint now) {
  return Concat(", for ", Lasting(until - now), " more");
}

std::string AgentState(const Agent& agent, bool over, TimePoint now) {
  if (agent.presence == Presence::kGone) return agent.why;
  if (agent.suspect) return Concat("suspect", Since(agent.since, now), ": ", agent.why);
  if (agent.presence == Presence::kDetached) return Concat("away", Since(agent.since, now));
  if (!agent.unfit.empty()) return Concat("cannot take part: ", agent.unfit);
  if (!agent.left_out.empty()) return Concat("left out: ", agent.left_out);
  if (over) return "ending";
  return agent.member >= 0 ? "in round" : "spare";
}

// A missing node with what is known of it: "n3 (suspect)".
std::string MissingNode(const Node& node, const std::vector<std::string>& starting) {
  std::string what;
  if (node.dropping == Dropping::kDone) {
    what = "taken out of the job";
  } else if (node.slurm_down) {
    what = "down, says Slurm";
  } else if (node.Unreachable() || (node.lost && node.living == 0)) {
    const auto gone =
        std::max_element(node.agents.begin(), node.agents.end(),
                         [](const Agent* a, const Agent* b) { return a->since < b->since; });
    what = gone == node.agents.end() ? "gone" : (*gone)->why;
  } else if (!node.refused.empty()) {
    what = Concat("refused: ", node.refused);
  } else if (node.living > 0 && node.living < node.required) {
    what = Concat(node.living, " of ", node.required, " agents");
  } else if (std::find(starting.begin(), starting.end(), node.name) != starting.end()) {
    what = "starting";
  }
  for (const Agent* agent : node.agents) {
    if (!what.empty() || agent->presence == Presence::kGone) continue;
    if (agent->suspect) what = "suspect";
    if (!agent->left_out.empty()) what = agent->left_out;
    if (!agent->unfit.empty()) what = agent->unfit;
  }
  return what.empty() ? node.name : Concat(node.name, " (", what, ")");
}

}  // namespace

std::size_t Machine::State::Missing(std::vector<std::string>* names) const {
  std::vector<const Node*> missing;
  for (const auto& [name, node] : members.nodes()) {
    if (!node.candidate && (node.expected || node.previous)) missing.push_back(&node);
  }
  std::sort(missing.begin(), missing.end(),
            [](const Node* a, const Node* b) { return a->order < b->order; });
  for (std::size_t i = 0; i < missing.size() && i < kNamesShown; ++i) {
    names->push_back(MissingNode(*missing[i], starting_nodes));
  }
  return missing.size();
}

std::string Machine::State::Explain(TimePoint at) const {
  std::vector<std::string> names;
  const std::size_t total = Missing(&names);
  TimePoint since = phase_since;
  if (round == 0 && phase == Phase::kForming) since = first_agent_at.value_or(at);
  return ExplainQuorum(Inputs(), names, total, since, at);
}

std::string Machine::State::WaitingFor(TimePoint at) const {
  std::vector<std::string> names;
  std::size_t total = 0;
  const auto name = [&](const std::string& node) {
    ++total;
    if (names.size() < kNamesShown) names.push_back(node);
  };
  switch (phase) {
    case Phase::kForming:
    case Phase::kLastCall:
      return Explain(at);
    case Phase::kPreparing:
      for (const Member& member : current->members) {
        if (!member.ready || !member.well) name(member.id.key.node);
      }
      return Concat("waiting for ", ListNames(names, total), " to be ready for ",
                    ToString(current->fence), Since(phase_since, at),
                    Until(current->prepare_until, at));
    case Phase::kActive:
      if (!current->broken) return {};
      return Concat("waiting for a death that explains why rank ", current->broken->rank, " on ",
                    current->broken->node, " lost its peers",
                    Until(current->broken->since + config.lease + kBrokenGrace, at));
    case Phase::kDraining:
      if (requeue_wish != 0) return "waiting for the host to requeue the job";
      for (const auto& [key, agent] : members.agents()) {
        if (agent.presence != Presence::kGone) name(key.node);
      }
      return Concat("waiting for the agents on ", ListNames(names, total), " to say goodbye",
                    Since(phase_since, at),
                    Until(drain_since + kGoodbyeGrace + config.stop_grace, at));
    case Phase::kClosed:
      return {};
  }
  return {};
}

protocol::RunView Machine::View(TimePoint now) const {
  const State& state = *state_;
  protocol::RunView view;
  view.run_id = state.config.run_id;
  view.phase = ToString(state.phase);
  view.fence = state.Newest();
  view.world_size = state.current ? state.current->world_size : 0;
  view.waiting_for = state.WaitingFor(now);
  view.last_blame = state.last_blame;
  view.verdict = state.verdict;
  for (const auto& [key, agent] : state.members.agents()) {
    protocol::AgentView shown;
    shown.key = key;
    shown.state = AgentState(agent, state.Over(), now);
    shown.last_step = agent.last_step;
    if (agent.member >= 0) {
      const Member& member = state.current->members[static_cast<std::size_t>(agent.member)];
      shown.node_rank = static_cast<std::int32_t>(member.assignment.node_rank);
      shown.workers = member.assignment.workers;
    }
    view.agents.push_back(std::move(shown));
  }
  for (const auto& [name, node] : state.members.nodes()) {
    if (!node.expected || !node.agents.empty()) continue;
    protocol::AgentView shown;
    shown.key.node = name;
    shown.state = node.refused.empty() ? "expected" : Concat("refused: ", node.refused);
    view.agents.push_back(std::move(shown));
  }
  return view;
}

}  // namespace muster::core
