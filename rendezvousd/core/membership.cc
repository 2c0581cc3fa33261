#include "rendezvousd/core/membership.h"

#include <algorithm>
#include <utility>

#include "common/check.h"
#include "rendezvousd/core/limits.h"
#include "rendezvousd/core/naming.h"

namespace muster::core {

Membership::Membership(const protocol::Config& config) {
  for (std::size_t i = 0; i < config.nodes.size(); ++i) {
    Node& node = nodes_[config.nodes[i]];
    node.name = config.nodes[i];
    node.expected = true;
    node.order.expected = static_cast<std::uint32_t>(i);
    node.required = protocol::AgentsOnNode(config, i);
    Refresh(node);
  }
}

Agent* Membership::Find(const protocol::AgentKey& key) {
  const auto found = agents_.find(key);
  return found == agents_.end() ? nullptr : &found->second;
}
const Agent* Membership::Find(const protocol::AgentKey& key) const {
  const auto found = agents_.find(key);
  return found == agents_.end() ? nullptr : &found->second;
}

Agent* Membership::FindExact(const protocol::AgentId& id) {
  Agent* agent = Find(id.key);
  return agent != nullptr && agent->id.incarnation == id.incarnation ? agent : nullptr;
}
const Agent* Membership::FindExact(const protocol::AgentId& id) const {
  const Agent* agent = Find(id.key);
  return agent != nullptr && agent->id.incarnation == id.incarnation ? agent : nullptr;
}

Node* Membership::FindNode(const std::string& name) {
  const auto found = nodes_.find(name);
  return found == nodes_.end() ? nullptr : &found->second;
}

Node& Membership::NodeOf(const std::string& name, const protocol::Hello& hello) {
  const auto [found, is_new] = nodes_.try_emplace(name);
  Node& node = found->second;
  if (is_new) {
    node.name = name;
    node.order.slurm_index = hello.node_index;
    node.order.arrival = ++arrivals_;
  }
  if (!node.expected) node.required = std::max(hello.agents_on_node, 1U);
  return node;
}

Agent& Membership::Attend(const protocol::AgentId& id, const protocol::Hello& hello,
                          TimePoint now) {
  Node& node = NodeOf(id.key.node, hello);
  const auto [found, is_new] = agents_.try_emplace(id.key);
  Agent& agent = found->second;
  if (is_new) {
    agent.node = &node;
    node.agents.push_back(&agent);
  } else if (agent.id.incarnation != id.incarnation) {
    std::vector<protocol::Incarnation> fenced = std::move(agent.fenced);
    fenced.push_back(agent.id.incarnation);
    if (fenced.size() > limits::kFencedIncarnations) fenced.erase(fenced.begin());
    agent = Agent{};
    agent.node = &node;
    agent.fenced = std::move(fenced);
  }
  agent.id = id;
  agent.presence = Presence::kAttached;
  agent.suspect = false;
  agent.since = now;
  agent.why.clear();
  agent.left_out.clear();
  agent.unfit = Limited(hello.problem);
  agent.unfit_code = hello.problem_code;
  agent.address = hello.address;
  agent.sent = SentOrder{};
  node.down = false;
  node.lost = false;
  node.refused.clear();
  Refresh(node);
  return agent;
}

bool Membership::Full() {
  if (agents_.size() < limits::kAgentsMax) return false;
  for (auto it = agents_.begin(); it != agents_.end();) {
    Agent& agent = it->second;
    if (agent.presence != Presence::kGone || agent.member >= 0) {
      ++it;
      continue;
    }
    std::erase(agent.node->agents, &agent);
    Refresh(*agent.node);
    it = agents_.erase(it);
  }
  return agents_.size() >= limits::kAgentsMax;
}

void Membership::Refresh(Node& node) {
  candidates_ -= node.candidate ? 1 : 0;
  expected_missing_ -= node.missing_expected ? 1 : 0;
  previous_missing_ -= node.missing_previous ? 1 : 0;
  unfit_ -= node.unfit ? 1 : 0;
  unreachable_ -= node.unreachable ? 1 : 0;
  living_ -= node.living;
  attached_ -= node.attached;

  node.well = node.living = node.attached = 0;
  bool suspect = false;
  bool left_out = false;
  node.unfit = false;
  for (const Agent* agent : node.agents) {
    if (agent->presence == Presence::kGone) continue;
    ++node.living;
    if (agent->presence == Presence::kAttached) ++node.attached;
    if (agent->Well()) ++node.well;
    suspect |= agent->suspect;
    node.unfit |= !agent->unfit.empty();
    left_out |= !agent->left_out.empty() || !agent->unfit.empty();
  }
  const bool reachable = !node.Unreachable();
  node.unreachable = !reachable && !node.unfit;
  node.candidate = reachable && !suspect && node.well >= node.required;
  node.missing_expected = node.expected && reachable && !node.candidate && !left_out;
  node.missing_previous =
      node.previous && reachable && !node.candidate && !suspect && !left_out && !node.lost;

  candidates_ += node.candidate ? 1 : 0;
  expected_missing_ += node.missing_expected ? 1 : 0;
  previous_missing_ += node.missing_previous ? 1 : 0;
  unfit_ += node.unfit ? 1 : 0;
  unreachable_ += node.unreachable ? 1 : 0;
  living_ += node.living;
  attached_ += node.attached;
}

std::vector<Agent*> Membership::Chosen(const Node& node) {
  MUSTER_CHECK(node.candidate, node.name);
  std::vector<Agent*> chosen;
  for (Agent* agent : node.agents) {
    if (agent->Well()) chosen.push_back(agent);
  }
  std::sort(chosen.begin(), chosen.end(), [](const Agent* a, const Agent* b) {
    return std::make_pair(!a->was_chosen, a->id.key) < std::make_pair(!b->was_chosen, b->id.key);
  });
  chosen.resize(node.required);
  std::sort(chosen.begin(), chosen.end(),
            [](const Agent* a, const Agent* b) { return a->id.key < b->id.key; });
  return chosen;
}

std::vector<std::string> Membership::CandidateNames() const {
  std::vector<const Node*> found;
  for (const auto& [name, node] : nodes_) {
    if (node.candidate) found.push_back(&node);
  }
  std::sort(found.begin(), found.end(),
            [](const Node* a, const Node* b) { return a->order < b->order; });
  std::vector<std::string> names;
  for (const Node* node : found) names.push_back(node->name);
  return names;
}

}  // namespace muster::core
