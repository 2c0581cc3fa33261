#pragma once

// The sbatch command of `muster submit`. Pure: the caller has read the script and will check the
// folders.
//
// Added unless the user said otherwise, in the options, in SBATCH_* or in the script's #SBATCH
// lines: --requeue (a lost batch host is a restart, not the end), --no-kill (the loss of another
// node is muster's to repair) and --open-mode=append (a requeue would truncate the evidence).
// Variables that leak from a surrounding job are removed: sbatch and the new job would obey them.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"
#include "launcher/slurm/environment_map.h"
#include "launcher/slurm/sbatch_options.h"
#include "launcher/slurm/scheduler.h"

namespace muster::slurm {

struct SubmitScript {
  std::string path;
  std::string text;
  std::vector<std::string> arguments;
};

struct SubmitInput {
  std::vector<std::string> options;    // sbatch's, in their order
  std::optional<SubmitScript> script;  // `muster submit -N 4 job.sh`
  // `muster submit -N 4 -- python train.py`: the words of the program, and those before them
  // ({"/path/muster", "run", "--spares=1", "--"}).
  std::vector<std::string> program;
  std::vector<std::string> run_words;
  std::string directory;  // the current one, absolute
  EnvironmentMap environment;
};

// A folder that must exist, since Slurm creates none: the job would fail without a line of output.
struct OutputFolder {
  std::string option;   // "--output"
  std::string pattern;  // as the user wrote it
  std::string folder;   // absolute; up to the first part that only the job will know
  // False: a part of the folder depends on the job (%j), so that it cannot exist before.
  bool fixed = true;
};

struct SbatchCommand {
  SubmitRequest request;
  std::vector<OutputFolder> folders;
  // What was added, removed or is worth knowing; sentences for people.
  std::vector<std::string> notes;
};

Result<SbatchCommand> BuildSbatchCommand(const SubmitInput& input);

// --- its parts
// ------------------------------------------------------------------------------------

// Removes what leaks from a surrounding job and names it in `notes`. Outside of a job SBATCH_* and
// SLURM_* are the user's own and stay.
EnvironmentMap WithoutSurroundingJob(const EnvironmentMap& environment,
                                     std::vector<std::string>& notes);

// `text` as one word of a POSIX shell.
std::string ShellQuote(std::string_view text);

}  // namespace muster::slurm
