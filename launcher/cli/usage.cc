#include "launcher/cli/usage.h"

#include <array>

#include "common/text.h"
#include "launcher/config/option_table.h"

namespace muster::cli {
namespace {

constexpr std::array kUsages = {
    CommandUsage{config::kRun, "run", "[options] [--] PROGRAM [ARGUMENTS]",
                 "Starts PROGRAM on all nodes of the job as one world, and again when it fails."},
    CommandUsage{config::kSubmit, "submit",
                 "[options] SCRIPT [ARGUMENTS]\n[options] -- PROGRAM [ARGUMENTS]",
                 "Submits a script that calls `muster run`, or makes one. Every option of sbatch "
                 "is\npassed on as it is. The job's id is the last word of the output."},
    CommandUsage{config::kPlan, "plan", "[options of run] [--] PROGRAM [ARGUMENTS]",
                 "Prints what `muster run` with the same words would do, and why."},
    CommandUsage{config::kStatus, "status", "[options] [JOB | FOLDER]",
                 "Says how the job's runs are. Without JOB: the job around, else the only one or "
                 "the newest."},
    CommandUsage{config::kConfig, "config", "[options]", "Prints every setting with its source."},
    CommandUsage{config::kVersion, "version", "[--json]", "Prints the version."},
};

}  // namespace

std::span<const CommandUsage> CommandUsages() { return kUsages; }

std::string UsageText(unsigned command) {
  std::string out;
  for (const CommandUsage& usage : kUsages) {
    if (usage.command != command) continue;
    for (const std::string_view line : Split(usage.synopsis, '\n')) {
      out += Concat(out.empty() ? "usage: " : "       ", "muster ", usage.name, " ", line, "\n");
    }
    out += Concat("\n", usage.what_it_does);
  }
  return out;
}

}  // namespace muster::cli
