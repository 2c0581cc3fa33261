#pragma once

// Which agent of the run this is: from Slurm's variables of the step, or from MUSTER_LOCAL_NODE.
// Never from names resolved or addresses compared: Slurm's node name and relative node id decide.
//
// Pure; a variable that is not understood is InvalidArgument naming it.

#include <cstdint>
#include <map>
#include <string>

#include "common/status.h"
#include "launcher/agent/options.h"

namespace muster::agent {

using Environment = std::map<std::string, std::string>;

struct Place {
  std::string node;
  std::uint32_t step_id = 0;
  std::uint32_t task_id = 0;
  std::uint32_t node_index = 0;
  std::uint32_t agents_on_node = 1;
  bool slurm = false;
};

// `host_name` is used only where neither Slurm nor muster names the node.
Result<Place> PlaceFromEnvironment(const Environment& environment, const Options& options,
                                   const std::string& host_name);

// The value of a variable, or "".
std::string Lookup(const Environment& environment, const std::string& name);

}  // namespace muster::agent
