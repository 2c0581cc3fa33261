#pragma once

// Who is who, and when: the keys that every message carries. Plain values, compared and ordered.

#include <compare>
#include <cstdint>
#include <string>

namespace muster::protocol {

// The fence: attempt first, then round. It only grows in the life of a run, without any file.
struct Fence {
  std::uint32_t attempt = 0;
  std::uint32_t round = 0;  // 0: no round yet in this attempt
  auto operator<=>(const Fence&) const = default;
};
// "attempt 0 round 3"
std::string ToString(const Fence& fence);

// An agent's place. `node` is Slurm's node name (or local0, local1, ... without Slurm).
struct AgentKey {
  std::string node;
  std::uint32_t step_id = 0;
  std::uint32_t task_id = 0;
  auto operator<=>(const AgentKey&) const = default;
};
// "n3/0.2": node, step, task
std::string ToString(const AgentKey& key);

// Drawn at random when a supervisor starts; never 0. A new one fences the old one.
using Incarnation = std::uint64_t;

struct AgentId {
  AgentKey key;
  Incarnation incarnation = 0;
  auto operator<=>(const AgentId&) const = default;
};

// A request that changes state: answered again, not done again, when it is repeated.
struct RequestId {
  AgentId agent;
  std::uint64_t number = 0;  // 0: not repeatable, never remembered
  auto operator<=>(const RequestId&) const = default;
};

}  // namespace muster::protocol
