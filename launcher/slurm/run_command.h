#pragma once

// Runs one of Slurm's tools to its end, bounded in time and output.
//
// The child gets a session of its own and has SIGTERM, SIGINT and SIGHUP blocked: Slurm's TERM to a
// dying job must not end a requeue half-way (timeout(1) dies of it, so the deadline is kept here).
// After the deadline its whole session is killed. No descriptor of ours but 0, 1 and 2 reaches it
// if all others are close-on-exec. The caller must not reap it with waitpid(-1).
//
// Blocks the calling thread. Thread-safe.

#include <cstddef>
#include <string>
#include <vector>

#include "common/status.h"
#include "common/time.h"
#include "launcher/slurm/environment_map.h"

namespace muster::slurm {

// A cluster of 10,000 nodes prints some 10 MB for all of them; more is not an answer.
inline constexpr std::size_t kMaxToolOutput = std::size_t{32} << 20U;

struct Command {
  std::vector<std::string> arguments;  // the first is the program's absolute path
  EnvironmentMap environment;
  std::string directory;  // empty: ours
  std::string input;      // to its stdin
  Duration deadline = std::chrono::seconds(15);
};

struct CommandResult {
  int exit_code = 0;  // 128 + signal if it was killed
  std::string output;
  std::string error_output;
};

// DeadlineExceeded after a kill; NotFound if there is no such program; ResourceExhausted if it
// prints too much. A child that ends with an error is a result.
Result<CommandResult> RunCommand(const Command& command);

// The absolute path of a tool: from `directory` if that is given, else PATH, else where Slurm is
// commonly installed (PATH may be empty inside a job). NotFound names all of them.
Result<std::string> FindTool(const std::string& name, const EnvironmentMap& environment,
                             const std::string& directory);

}  // namespace muster::slurm
