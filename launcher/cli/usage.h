#pragma once

// How each command is called and what it does: one table for --help and the manual page.

#include <span>
#include <string>
#include <string_view>

namespace muster::cli {

struct CommandUsage {
  unsigned command;           // its bit in the option table, which has its name
  std::string_view synopsis;  // what stands behind the name; a line for each way to call it
  std::string_view what_it_does;
};

std::span<const CommandUsage> CommandUsages();

// The head of `muster COMMAND --help`.
std::string UsageText(unsigned command);

}  // namespace muster::cli
