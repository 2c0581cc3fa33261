#pragma once

// What the host (or the SPANK plugin's host) hands to the agents of a run: one JSON document in
// MUSTER_AGENT_OPTIONS, the same for all agents; what differs by node or task comes from Slurm's
// variables, or from MUSTER_LOCAL_NODE for `muster run --local`. Secrets are not in it: the join
// secret travels in MUSTER_JOIN_SECRET and is erased at once.

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"
#include "common/time.h"

namespace muster::agent {

struct Options {
  std::string run_id;
  std::string run_name;
  std::string version;
  std::uint32_t attempt = 0;
  std::vector<std::string> endpoints;  // numeric ADDRESS:PORT of the daemon, tried in turn
  std::string certificate;             // PEM
  // Program and arguments, as typed; looked up in the worker's PATH. With the plugin: empty, the
  // task's own argv is used.
  std::vector<std::string> program;
  std::uint32_t workers_per_agent = 1;
  std::string state_dir;       // shared; empty with the plugin where none is known
  std::string state_token;     // of the host, in a file there (node_check.h); "": none
  std::string checkpoint_dir;  // shared
  std::string local_dir;       // "": SLURM_TMPDIR, TMPDIR, /tmp in this order
  std::string log_dir;         // shared, one file per (attempt, round, rank)
  std::string working_dir;     // "": as started
  // --env NAME=VALUE and --env NAME (value taken from the host's environment).
  std::map<std::string, std::string> set_environment;
  // --keep-env NAME: the user's own value of a fact is kept all the same.
  std::vector<std::string> keep_environment;
  // For --local: addresses are loopback and nodes are names only.
  bool local = false;
  Duration beat = std::chrono::seconds(1);
  Duration lease = std::chrono::seconds(5);
  Duration stop_grace = std::chrono::seconds(20);
  Duration form_timeout = std::chrono::minutes(30);
  // Ranks whose output the merged stream shows: all up to this many workers in the world.
  std::uint32_t show_all_up_to = 8;
};

std::string ToJson(const Options& options);
Result<Options> OptionsFromJson(std::string_view json);

// The environment variable by which `muster run --local` names each agent's node.
inline constexpr char kLocalNode[] = "MUSTER_LOCAL_NODE";

}  // namespace muster::agent
