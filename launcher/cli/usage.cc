#include "launcher/cli/usage.h"

#include <array>

#include "common/text.h"
#include "launcher/config/option_table.h"

namespace muster::cli {
namespace {

constexpr std::array kUsages = {
    CommandUsage{config::kRun, "[options] [--] PROGRAM [ARGUMENTS]",
                 "Starts PROGRAM on all nodes of the job as one world, and again when it fails."},
    CommandUsage{config::kSubmit, "[options] SCRIPT [ARGUMENTS]\n[options] -- PROGRAM [ARGUMENTS]",
                 "Submits a script that calls `muster run`, or makes one. Every option of sbatch "
                 "is\npassed on as it is. The job's id is the last word of the output."},
    CommandUsage{config::kPlan, "[options of run] [--] PROGRAM [ARGUMENTS]",
                 "Prints what `muster run` with the same words would do, and why."},
    CommandUsage{config::kStatus, "[options] [JOB | FOLDER]",
                 "Says how the job's runs are. Without JOB, here and below: the job around, else "
                 "your only\nrunning one, else your newest."},
    CommandUsage{config::kWhy, "[options] [JOB | FOLDER]",
                 "Says in one sentence who failed first, where and why, then what was seen, each "
                 "round\nwith its end, and the last lines of the log to read. Exit code: 0, or 1 "
                 "if nothing is\nwritten."},
    CommandUsage{config::kLogs,
                 "[options] [JOB | FOLDER]\n--rank R | --first-failing [--follow] [JOB | FOLDER]",
                 "Lists the workers' logs with size and last line, or prints those of one rank, "
                 "attempt by\nattempt and round by round. Exit code: 0, or 1 if there is no such "
                 "log."},
    CommandUsage{config::kEvents, "[options] [JOB | FOLDER]",
                 "Prints what happened to the job's runs, a line for each event. Exit code: 0, or "
                 "1 if\nnothing is written."},
    CommandUsage{config::kJobs, "[--json]", "Lists your jobs with their runs, the newest first."},
    CommandUsage{config::kCancel, "[options] [JOB | FOLDER]",
                 "Ends a running run. Exit code: 0 if its daemon accepted, 1 if it did not, if "
                 "the run has\nended or if no daemon answers, 64 for wrong words or an unknown "
                 "job."},
    CommandUsage{config::kStop, "[options] [JOB | FOLDER]",
                 "As cancel: the workers get TERM and --stop-grace to save, and the same script "
                 "goes on\nlater. Exit codes as cancel."},
    CommandUsage{config::kRestart, "[options] [JOB | FOLDER]",
                 "Ends the round that runs and begins a new one, without a cost to any budget. "
                 "Exit codes as\ncancel; 1 also where no round runs."},
    CommandUsage{config::kConfig, "[options]", "Prints every setting with its source."},
    CommandUsage{config::kVersion, "[--json]", "Prints the version."},
};

}  // namespace

std::span<const CommandUsage> CommandUsages() { return kUsages; }

std::string UsageText(unsigned command) {
  std::string out;
  for (const CommandUsage& usage : kUsages) {
    if (usage.command != command) continue;
    for (const std::string_view line : Split(usage.synopsis, '\n')) {
      out += Concat(out.empty() ? "usage: " : "       ", "muster ",
                    config::CommandName(usage.command), " ", line, "\n");
    }
    out += Concat("\n", usage.what_it_does);
  }
  return out;
}

}  // namespace muster::cli
