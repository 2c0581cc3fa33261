#pragma once

// What every command about one job starts with: its words, and the runs that they mean.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/cli/context.h"
#include "launcher/cli/json_fields.h"

namespace muster::cli {

// Nothing could be read, or nothing was done. Documented in usage.cc and docs/user/errors.md.
inline constexpr int kNoAnswer = 1;

struct JobCommand {
  Context context;
  std::string base;
  std::vector<std::string> folders;  // of its runs, the oldest first; with --name one
  bool Json() const { return context.line.settings.Flag("json"); }
};

// An exit code where the command is over already: help was asked for, or the words are wrong, which
// has been said.
std::optional<int> BeginJobCommand(unsigned command, const Words& words, JobCommand* begun);

// {"state_dir": ..., "runs": [...]}.
void PrintRuns(const JobCommand& command, cli::Json runs);

}  // namespace muster::cli
