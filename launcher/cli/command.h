#pragma once

// The commands of muster. Each takes the words behind its own name and gives the exit code.

#include <string>
#include <vector>

namespace muster::cli {

using Words = std::vector<std::string>;

int RunCommand(const Words& words);
int SubmitCommand(const Words& words);
int PlanCommand(const Words& words);
int StatusCommand(const Words& words);
int WhyCommand(const Words& words);
int LogsCommand(const Words& words);
int EventsCommand(const Words& words);
int JobsCommand(const Words& words);
int CancelCommand(const Words& words);
int StopCommand(const Words& words);
int RestartCommand(const Words& words);
int ConfigCommand(const Words& words);
int VersionCommand(const Words& words);

// Hidden: our own programs call them.
int AgentCommand(const Words& words);
int HostCommand(const Words& words);

// `muster` without a command, and --help: what there is, by task.
std::string ShortHelp();

// argv without the program's name.
int Main(const Words& words);

}  // namespace muster::cli
