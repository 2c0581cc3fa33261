#pragma once

// The agent's folders on its node's own disk. All 0700, all below BASE/muster-UID.
//
//   RUN            BASE/muster-UID/HASH-NODE    one for each run and node
//   RUN/local      MUSTER_LOCAL_DIR: the workers' own; stays if something is in it
//   RUN/logs       output files, removed when the shared folder has them
//   RUN/agent-...  this agent's private one (socket, error files), removed at the end

#include <string>

#include "common/status.h"
#include "launcher/agent/options.h"
#include "launcher/agent/place.h"

namespace muster::agent {

struct Folders {
  std::string user;  // BASE/muster-UID
  std::string run;
  std::string local;
  std::string logs;
  std::string own;     // RUN/agent-...
  std::string socket;  // the agent's socket: in `own`, or under /tmp where that path is too long
};

// Makes them. `process` tells apart an agent from a dead one of the same place.
Result<Folders> MakeAgentFolders(const Options& options, const Environment& environment,
                                 const Place& place, int process);
// Removes what is the agent's own, and the others where they are empty.
void RemoveAgentFolders(const Folders& folders);
// As text for the supervisor's command line, and back.
std::vector<std::string> ToArguments(const Folders& folders);
Result<Folders> FoldersFromArguments(const std::vector<std::string>& arguments);

}  // namespace muster::agent
