#include "rendezvousd/core/rank_assignment.h"

#include <numeric>
#include <set>

#include "common/count_list.h"

namespace muster::core {

std::vector<std::string> PlaceNodes(const std::vector<std::string>& previous,
                                    const std::vector<std::string>& candidates,
                                    std::uint32_t max_nodes) {
  const std::set<std::string_view> here(candidates.begin(), candidates.end());
  const std::set<std::string_view> before(previous.begin(), previous.end());
  auto spare = candidates.begin();
  const auto take_spare = [&]() -> const std::string* {
    while (spare != candidates.end() && before.contains(*spare)) ++spare;
    return spare == candidates.end() ? nullptr : &*spare++;
  };
  std::vector<std::string> placed;
  for (const std::string& node : previous) {
    if (placed.size() == max_nodes) break;
    if (here.contains(node)) {
      placed.push_back(node);
    } else if (const std::string* replacement = take_spare()) {
      placed.push_back(*replacement);
    }
  }
  while (placed.size() < max_nodes) {
    const std::string* next = take_spare();
    if (next == nullptr) break;
    placed.push_back(*next);
  }
  return placed;
}

std::vector<protocol::Assignment> AssignRanks(
    const std::vector<std::vector<std::uint32_t>>& workers_of_agents, const WorldFacts& facts) {
  std::vector<int> counts;
  std::uint32_t world_size = 0;
  for (const std::vector<std::uint32_t>& agents : workers_of_agents) {
    const std::uint32_t workers = std::accumulate(agents.begin(), agents.end(), 0U);
    counts.push_back(static_cast<int>(workers));
    world_size += workers;
  }
  const std::string tasks_per_node = CompressCountList(counts);
  std::vector<protocol::Assignment> out;
  std::uint32_t rank = 0;
  for (std::size_t node = 0; node < workers_of_agents.size(); ++node) {
    std::uint32_t local_rank = 0;
    for (const std::uint32_t workers : workers_of_agents[node]) {
      protocol::Assignment assignment;
      assignment.node_rank = static_cast<std::uint32_t>(node);
      assignment.node_count = static_cast<std::uint32_t>(workers_of_agents.size());
      assignment.first_rank = rank;
      assignment.workers = workers;
      assignment.first_local_rank = local_rank;
      assignment.local_world_size = static_cast<std::uint32_t>(counts[node]);
      assignment.world_size = world_size;
      assignment.previous_world_size = facts.previous_world_size;
      assignment.restart_count = facts.restart_count;
      assignment.tasks_per_node = tasks_per_node;
      out.push_back(std::move(assignment));
      rank += workers;
      local_rank += workers;
    }
  }
  return out;
}

}  // namespace muster::core
