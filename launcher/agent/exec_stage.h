#pragma once

// The small program between the supervisor and a worker: what must happen in the worker's own
// process before its program starts, and cannot be asked of posix_spawn.
//
// It takes default handlers and an empty mask, KILL when the supervisor dies, the CPUs, the folder,
// and then the program, looked up in the worker's PATH. What fails is said on the worker's stderr
// with node, program and PATH, and ends with 127 (not found) or 126 (could not be run). The session
// is made by posix_spawn.

#include <sched.h>
#include <sys/types.h>

#include <string>
#include <vector>

#include "common/status.h"

namespace muster::agent {

struct ExecStage {
  pid_t parent = 0;         // the supervisor; another one at the start means that it died
  std::string node;         // for messages
  std::string working_dir;  // "": as it is
  std::vector<int> cpus;    // empty: as they are
  bool slurm_task = false;  // SLURM_TASK_PID becomes the worker's own
  std::vector<std::string> program;
};

std::vector<std::string> ToArguments(const ExecStage& stage);
Result<ExecStage> ExecStageFromArguments(const std::vector<std::string>& arguments);

// The exit codes of a worker that could not be started, as a shell has them.
inline constexpr int kProgramNotFound = 127;
inline constexpr int kProgramNotRunnable = 126;
// Where execvp looks when PATH is not set at all, as in a job of `sbatch --export=NONE`.
inline constexpr char kDefaultPath[] = "/bin:/usr/bin";

// The file that execvp would take in `folder` ("": the current one), or a message naming program,
// node and PATH: NotFound, PermissionDenied, or Unavailable where the file system does not say.
Result<std::string> FindProgram(const std::string& program, const std::string& path,
                                const std::string& node, const std::string& folder = "");
// The interpreter of a script's first line, and with `#!/usr/bin/env NAME` that name too. OK for
// what is no script, or cannot be read.
Status CheckInterpreter(const std::string& file, const std::string& path, const std::string& node,
                        const std::string& folder);
// Of stat, access and open: it is so, and will be so in a moment.
bool IsCertain(int error);

// The CPUs that this process may use.
std::vector<int> AllowedCpus();

}  // namespace muster::agent
