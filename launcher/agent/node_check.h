#pragma once

// What must be right on a node before a worker can start there: the working folder, the program
// with its interpreter, the state folder (the one that all nodes share: it holds the host's token),
// and a log folder that can be written.
//
// Only what the file system says for certain is a problem: that something is not there, is no
// program, or may not be used. A folder that is slow, full or answers with an error of its own is a
// warning, and the agent goes on without its answer: a stalled shared folder never stops a world.

#include <optional>
#include <string>
#include <vector>

#include "common/time.h"
#include "launcher/agent/options.h"
#include "launcher/agent/place.h"

namespace muster::agent {

struct NodeCheck {
  std::string node;
  std::string process;      // tells apart the agents of a node, in names of files
  std::string working_dir;  // "": as it is
  std::string program;
  std::string path;  // the worker's PATH
  std::string state_dir;
  std::string state_token;  // "": not looked for
  std::string log_dir;      // "": none
  // A file that another machine has just written is looked for this long.
  Duration token_patience = std::chrono::seconds(2);
};

struct NodeProblem {
  int exit_code = 0;
  std::string text;
};

struct NodeFindings {
  std::optional<NodeProblem> problem;
  std::vector<std::string> warnings;
};

NodeCheck NodeCheckOf(const Options& options, const Environment& environment, const Place& place);

// May hang with the file system.
NodeFindings CheckNode(const NodeCheck& check);
// In a thread of its own, at most `limit`: then it is left behind, with a warning. Returns early,
// with a warning too, when one of `interrupts` (poll's descriptors) becomes readable or is closed.
NodeFindings CheckNodeWithin(const NodeCheck& check, Duration limit,
                             const std::vector<int>& interrupts);

// The file in the state folder that proves that it is the host's; a new name each time, since a
// network file system may remember for long that a name was not there.
std::string TokenFile(const std::string& state_dir, const std::string& token);

}  // namespace muster::agent
