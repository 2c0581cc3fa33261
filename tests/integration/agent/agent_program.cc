// The agent's three entry points without the rest of the command line, as `muster` dispatches them.

#include <cstdio>
#include <string>
#include <vector>

#include "launcher/agent/agent.h"

int main(int argc, char** argv) {
  std::vector<std::string> words(argv + 1, argv + argc);
  const std::string command = words.empty() ? "" : words.front();
  if (!words.empty()) words.erase(words.begin());
  if (command == "agent") {
    if (!words.empty() && words.front() == "--") words.erase(words.begin());
    return muster::agent::AgentMain(words);
  }
  if (command == "agent-supervisor") return muster::agent::SupervisorMain(words);
  if (command == "agent-exec") return muster::agent::ExecStageMain(words);
  std::fprintf(stderr, "usage: %s agent [-- PROGRAM...]\n", argv[0]);
  return 64;
}
