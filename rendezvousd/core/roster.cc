#include "rendezvousd/core/roster.h"

#include <algorithm>
#include <utility>

#include "common/check.h"
#include "rendezvousd/core/rank_assignment.h"

namespace muster::core {

const Member& Round::MemberOfRank(std::uint32_t rank) const {
  MUSTER_CHECK(rank < world_size, "a rank outside of the world");
  const auto behind = std::upper_bound(
      members.begin(), members.end(), rank,
      [](std::uint32_t value, const Member& m) { return value < m.assignment.first_rank; });
  return *(behind - 1);
}

Round MakeRound(const protocol::Fence& fence, const std::vector<std::string>& previous_nodes,
                const protocol::Config& config, std::uint32_t previous_world_size,
                std::uint32_t restart_count, Membership* members) {
  Round round;
  round.fence = fence;
  round.nodes = PlaceNodes(previous_nodes, members->CandidateNames(), config.max_nodes);
  std::vector<std::vector<std::uint32_t>> workers;
  std::vector<Agent*> agents;
  for (const std::string& name : round.nodes) {
    const Node& node = *members->FindNode(name);
    const std::vector<Agent*> chosen = members->Chosen(node);
    for (Agent* agent : node.agents) agent->was_chosen = false;
    for (Agent* agent : chosen) agent->was_chosen = true;
    workers.emplace_back(chosen.size(), config.workers_per_agent);
    agents.insert(agents.end(), chosen.begin(), chosen.end());
  }
  std::vector<protocol::Assignment> assignments = AssignRanks(
      workers, {.previous_world_size = previous_world_size, .restart_count = restart_count});
  MUSTER_CHECK(assignments.size() == agents.size() && !agents.empty(), "one assignment an agent");
  round.world_size = assignments.front().world_size;
  for (std::size_t i = 0; i < agents.size(); ++i) {
    Member member;
    member.id = agents[i]->id;
    member.agent = agents[i];
    member.assignment = std::move(assignments[i]);
    member.ended.resize(member.assignment.workers);
    agents[i]->member = static_cast<std::int32_t>(i);
    round.members.push_back(std::move(member));
  }
  round.not_ready = static_cast<std::uint32_t>(agents.size());
  return round;
}

}  // namespace muster::core
