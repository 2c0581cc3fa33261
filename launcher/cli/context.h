#pragma once

// What every command starts with: its words parsed, settings from all sources, where we are.

#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"
#include "launcher/cli/command.h"
#include "launcher/config/command_line.h"
#include "launcher/config/sources.h"
#include "launcher/host/launch.h"

namespace muster::cli {

struct Context {
  config::CommandLine line;
  slurm::EnvironmentMap environment;
  std::string folder;
  std::string host_name;
};

Result<Context> MakeContext(unsigned command, const Words& words,
                            const config::ForeignShapes& foreign = {});
// True if --help was asked for; then it has been printed.
bool HelpAsked(const Context& context, unsigned command);

// With the allocation around us; for --local without one.
Result<host::LaunchInput> ToLaunchInput(const Context& context);

// The message goes to stderr.
int UsageError(const Status& status);
// To stdout.
void Print(std::string_view text);

}  // namespace muster::cli
