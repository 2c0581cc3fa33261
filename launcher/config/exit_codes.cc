#include "launcher/config/exit_codes.h"

#include <array>

#include "proto/environment.h"

namespace muster::config {
namespace {

static_assert(exit_code::kDone == 0 && exit_code::kUsage == 64 && exit_code::kCouldNotForm == 69 &&
              exit_code::kGoesOnLater == 75 && exit_code::kBudgetSpent == 121 &&
              exit_code::kDeterministic == 122 && exit_code::kStopped == 123 &&
              exit_code::kTimeLimit == 124);

constexpr std::array kExitCodes = {
    ExitCode{"0", "Every worker has ended with 0, or the run had succeeded before.", ""},
    ExitCode{"64", "An option, a value, a file or the environment is wrong.",
             "The sentence names it and says what is right."},
    ExitCode{"69", "The world never came together, or not again.",
             "The sentence names the nodes that were missing and why."},
    ExitCode{"75", "The run has stopped and goes on after a requeue of its job.",
             "Nothing: Slurm starts the job again, and the program loads its newest checkpoint."},
    ExitCode{"121", "It was restarted as often as is allowed for this cause.",
             "Look at the failure that the sentence names; submit again when it is gone."},
    ExitCode{"122", "The same failure came again, without progress in between.",
             "It is the program or its input: correct it, a restart does not help."},
    ExitCode{"123", "It was stopped by a person, by scancel or by another signal to the job.",
             "Nothing; the same script goes on from the newest checkpoint."},
    ExitCode{"124", "Kept for the time limit; not given by this version.", ""},
    ExitCode{"other",
             "The code of the worker that failed first, or 128 and its signal's number. A "
             "worker's code from 64 to 75 or from 121 to 124 is given as 1; the verdict has the "
             "true one.",
             "Read the last lines of that worker; the sentence names its rank and node."},
};

}  // namespace

std::span<const ExitCode> ExitCodes() { return kExitCodes; }

}  // namespace muster::config
