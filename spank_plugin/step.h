#pragma once

// What the plugin's files share: the handle to Slurm, the two sides, and how a message reaches the
// user. C linkage and exceptions stay in plugin.cc.

extern "C" {
#include <slurm/spank.h>
}

#include <string>

namespace muster::spank {

// Set by the option's callback in every context that saw --muster; empty text means without a list.
struct OptionState {
  bool given = false;
  std::string list;
};
OptionState& Option();

// The muster program: `muster=PATH` in plugstack.conf, else bin/muster above the plugin's own
// folder, else /usr/bin/muster. Set once by slurm_spank_init.
std::string& ProgramPath();

// srun, after the allocation and before the launch: starts `muster host`, hands its endpoint to the
// tasks by environment. Returns 0, or -1 after the reason was printed.
int StartHost(spank_t spank);
// slurmstepd, once per step and node: a batch script inherits #SBATCH --muster by MUSTER.
int PassOptionToScript(spank_t spank);
// slurmstepd, in the task just before its exec: the program becomes `muster agent -- program`.
int WrapTask(spank_t spank);

}  // namespace muster::spank
