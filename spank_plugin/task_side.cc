// In slurmstepd: the batch script learns of #SBATCH --muster by a variable, and a task of a muster
// step becomes an agent. Runs in the task's own child process, as the user, after Slurm has set
// affinity, devices and the TaskProlog.

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>

#include "proto/environment.h"
#include "spank_plugin/step.h"

namespace muster::spank {
namespace {

constexpr std::uint32_t kBatchStep = 0xfffffffb;
constexpr std::uint32_t kExternStep = 0xfffffffc;
constexpr std::uint32_t kInteractiveStep = 0xfffffffa;

std::uint32_t StepId(spank_t spank) {
  std::uint32_t step = kExternStep;
  spank_get_item(spank, S_JOB_STEPID, &step);
  return step;
}

std::string TaskVariable(spank_t spank, const char* name) {
  // A certificate and the agents' options are the longest.
  static char buffer[128 * 1024];
  if (spank_getenv(spank, name, buffer, sizeof(buffer)) != ESPANK_SUCCESS) return "";
  return buffer;
}

}  // namespace

int PassOptionToScript(spank_t spank) {
  if (spank_context() != S_CTX_REMOTE || StepId(spank) != kBatchStep || !Option().given) return 0;
  const char* value = Option().list.empty() ? "1" : Option().list.c_str();
  // The user's own MUSTER=0 in the script's environment stays.
  spank_setenv(spank, environment::kEnabled, value, 0);
  return 0;
}

int WrapTask(spank_t spank) {
  std::uint32_t step = StepId(spank);
  if (step == kBatchStep || step == kExternStep || step == kInteractiveStep) return 0;
  std::string kind = TaskVariable(spank, environment::kStep);
  if (kind == environment::kStepAgents) return 0;
  if (kind != environment::kStepTasks) {
    if (!Option().given || TaskVariable(spank, environment::kEnabled) == "0") return 0;
    // The option came with the launch, the host's variables did not.
    spank_setenv(spank, environment::kTaskError,
                 "srun --export kept muster's variables from the tasks: use --export=ALL,... or "
                 "leave it out",
                 1);
  }
  int count = 0;
  char** arguments = nullptr;
  if (spank_get_item(spank, S_JOB_ARGV, &count, &arguments) != ESPANK_SUCCESS || count < 1) {
    slurm_error("muster: Slurm does not tell the task's program; it runs without muster");
    return -1;
  }
  // The program's name travels in a variable, the rest of the arguments stays where it is. The
  // string must outlive this hook: the process becomes the program next.
  spank_setenv(spank, environment::kTaskProgram, arguments[0], 1);
  char* wrapper = strdup(ProgramPath().c_str());
  if (wrapper == nullptr) return -1;
  arguments[0] = wrapper;
  return 0;
}

}  // namespace muster::spank
