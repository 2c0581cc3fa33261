#pragma once

// What the machine is told once, at the start of an attempt. Made by the host from the options
// table, checked by Validate, written to the journal's head.

#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "common/status.h"
#include "common/time.h"
#include "rendezvousd/protocol/identity.h"
#include "rendezvousd/protocol/messages.h"

namespace muster::protocol {

// Restarts allowed for one cause in one run.
struct Budget {
  std::uint32_t restarts = 0;
};

struct Config {
  std::string run_id;
  std::string version;  // agents of another version are refused
  std::uint32_t attempt = 0;

  // Expected nodes in rank order. An agent of another node is welcome as a spare behind them.
  std::vector<std::string> nodes;
  // Agents on each node of `nodes`; empty: one each. A node takes part with all its agents.
  std::vector<std::uint32_t> agents_per_node;
  std::uint32_t min_nodes = 1;
  std::uint32_t max_nodes = 1;
  std::uint32_t workers_per_agent = 1;

  Duration form_timeout = std::chrono::minutes(30);  // after the first agent, first round only
  Duration last_call = std::chrono::seconds(10);
  Duration wait_node = std::chrono::seconds(30);  // for a lost node, before a requeue
  Duration prepare_timeout = std::chrono::seconds(30);
  Duration beat = std::chrono::seconds(1);
  Duration lease = std::chrono::seconds(5);          // from the last beat to suspect
  Duration probe_timeout = std::chrono::seconds(1);  // for evidence that a suspect is dead
  Duration attend_grace = std::chrono::seconds(1);   // for a stream that broke to come back
  Duration stop_grace = std::chrono::seconds(20);    // TERM to KILL
  bool can_requeue = false;

  std::map<Cause, Budget> budgets;  // a cause that is not named has its default

  // The node that runs host and daemon: Slurm cannot drop it from the job. Empty: unknown or none.
  std::string batch_node;
};

inline constexpr std::uint32_t kUnboundedRestarts = std::numeric_limits<std::uint32_t>::max();

std::map<Cause, Budget> DefaultBudgets();
// What `config` allows for a cause.
std::uint32_t RestartsAllowed(const Config& config, Cause cause);
// Agents that belong to the expected node at this index of `nodes`.
std::uint32_t AgentsOnNode(const Config& config, std::size_t index);

// Every contradiction is named with both values: min above max, lease not above two beats, ...
Status Validate(const Config& config);

}  // namespace muster::protocol
