#pragma once

// What a keeper tells the supervisor that it starts, on its command line (nothing secret), and the
// socket between the two (everything secret, and the last word).
//
// Over the socket the keeper writes the join secret and a line feed. The supervisor writes "exit
// CODE\n" when it ends as it should; a keeper that reads an end without it knows of a crash. The
// end of the socket tells the supervisor that the keeper is dead.

#include <sys/types.h>

#include <string>
#include <vector>

#include "common/status.h"
#include "launcher/agent/folders.h"

namespace muster::agent {

struct SupervisorArguments {
  int socket = -1;
  pid_t keeper = 0;
  pid_t grandparent = 0;  // who started the keeper: slurmstepd, or a local host
  Folders folders;
  std::vector<std::string> program;  // "": the options' own
};

std::vector<std::string> ToArguments(const SupervisorArguments& arguments);
Result<SupervisorArguments> SupervisorArgumentsFrom(const std::vector<std::string>& arguments);

// The variables of this process.
Environment CurrentEnvironment();
// MUSTER_AGENT_OPTIONS, with `program` in the place of its own if that is not empty.
Result<Options> OptionsFromEnvironment(const Environment& environment,
                                       const std::vector<std::string>& program);
Result<Place> OwnPlace(const Environment& environment, const Options& options);

}  // namespace muster::agent
