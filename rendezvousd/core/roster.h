#pragma once

// One round: its roster with the ranks, and how far it has come. Pure data with its own counts.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/time.h"
#include "rendezvousd/core/membership.h"
#include "rendezvousd/protocol/messages.h"

namespace muster::core {

// One agent's part of a round.
struct Member {
  protocol::AgentId id;
  Agent* agent = nullptr;  // null once another incarnation took its place (only if done)
  protocol::Assignment assignment;
  bool ready = false;
  bool well = true;         // as counted in Round::unwell, while preparing
  std::vector<bool> ended;  // by local rank: its worker's end was told
  std::uint32_t done = 0;   // workers that ended with 0
  bool AllDone() const { return done == assignment.workers; }
};

// A communicator failed: somebody else must have died, or the network has a fault.
struct Broken {
  TimePoint since;
  std::int32_t rank = -1;
  std::string node;
  std::string reason;
};

struct Round {
  protocol::Fence fence;
  std::vector<std::string> nodes;  // in rank order
  std::vector<Member> members;     // in rank order
  std::uint32_t world_size = 0;
  TimePoint sealed_at;
  TimePoint prepare_until;
  std::optional<TimePoint> unwell_until;
  std::uint32_t not_ready = 0;
  std::uint32_t unwell = 0;  // members that are detached or suspect, while preparing
  std::string master_address;
  std::uint32_t master_port = 0;
  std::optional<TimePoint> started_at;  // none: it is being prepared
  std::uint32_t done = 0;               // workers
  bool progressed = false;
  std::optional<Broken> broken;

  bool Active() const { return started_at.has_value(); }
  const Member& MemberOfRank(std::uint32_t rank) const;
};

// Places the candidates and takes their agents into a new roster; sets Agent::member.
Round MakeRound(const protocol::Fence& fence, const std::vector<std::string>& previous_nodes,
                const protocol::Config& config, std::uint32_t previous_world_size,
                std::uint32_t restart_count, Membership* members);

}  // namespace muster::core
