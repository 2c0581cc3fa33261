#include <utility>

#include "launcher/agent/agent.h"
#include "launcher/cli/command.h"

namespace muster::cli {

int AgentCommand(const Words& words) {
  Words program = words;
  if (!program.empty() && program[0] == "--") program.erase(program.begin());
  return agent::AgentMain(std::move(program));
}

}  // namespace muster::cli
