#pragma once

// Who gets which rank. Pure.
//
// Nodes: a member of the last round keeps its place; the place of a lost one goes to the first
// spare in node order, or closes up if there is none; further spares follow behind, up to `max`.
// Ranks: counted through the nodes and through each node's agents, so one node's are adjacent.

#include <cstdint>
#include <string>
#include <vector>

#include "rendezvousd/protocol/messages.h"

namespace muster::core {

// `previous`: nodes of the last round in rank order. `candidates`: nodes that may take part, in
// node order. At most `max_nodes` come out.
std::vector<std::string> PlaceNodes(const std::vector<std::string>& previous,
                                    const std::vector<std::string>& candidates,
                                    std::uint32_t max_nodes);

// What every assignment of a round shares.
struct WorldFacts {
  std::uint32_t previous_world_size = 0;
  std::uint32_t restart_count = 0;
};

// One entry a node, in rank order: the workers of each of its agents. Gives one assignment an
// agent, in the same order.
std::vector<protocol::Assignment> AssignRanks(
    const std::vector<std::vector<std::uint32_t>>& workers_of_agents, const WorldFacts& facts);

}  // namespace muster::core
