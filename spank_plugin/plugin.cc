// The door: Slurm's hooks, dispatched by context. A job without muster's option notices nothing,
// and no exception leaves a hook: slurmd and everybody's sbatch live in the same process.

#include "spank_plugin/step.h"

#include <dlfcn.h>
#include <unistd.h>

#include <climits>
#include <cstdlib>
#include <cstring>

#include "proto/environment.h"

// What Slurm looks up by name; all else is hidden by the compile flags and exports.map.
#pragma GCC visibility push(default)
extern "C" {
// SPANK_PLUGIN defines namespace-scope constants, which have internal linkage in C++ unless they
// were declared before.
extern const char plugin_name[];
extern const char plugin_type[];
extern const unsigned int plugin_version;
extern const unsigned int spank_plugin_version;
SPANK_PLUGIN(muster, 1)

int slurm_spank_init(spank_t spank, int count, char** arguments);
int slurm_spank_local_user_init(spank_t spank, int count, char** arguments);
int slurm_spank_user_init(spank_t spank, int count, char** arguments);
int slurm_spank_task_init(spank_t spank, int count, char** arguments);
}
#pragma GCC visibility pop

namespace muster::spank {

OptionState& Option() {
  static OptionState state;
  return state;
}

std::string& ProgramPath() {
  static std::string path;
  return path;
}

namespace {

// May be called twice for one option (before Slurm 24.05 on the remote side).
int OnOption(int /*value*/, const char* argument, int /*remote*/) {
  Option().given = true;
  // sbatch hands an option without its optional argument on to the batch step as "(null)".
  bool empty = argument == nullptr || std::strcmp(argument, "(null)") == 0;
  Option().list = empty ? "" : argument;
  return 0;
}

void FindProgram(int count, char** arguments) {
  ProgramPath() = "/usr/bin/muster";
  Dl_info info{};
  if (dladdr(plugin_name, &info) != 0 && info.dli_fname != nullptr) {
    char real[PATH_MAX];
    if (realpath(info.dli_fname, real) != nullptr) {
      std::string folder(real);
      folder.erase(folder.rfind('/'));
      std::string candidate = folder + "/../bin/muster";
      if (access(candidate.c_str(), X_OK) == 0 && realpath(candidate.c_str(), real) != nullptr) {
        ProgramPath() = real;
      }
    }
  }
  for (int i = 0; i < count; ++i) {
    if (std::strncmp(arguments[i], "muster=", 7) == 0) ProgramPath() = arguments[i] + 7;
  }
}

int OnInit(spank_t spank, int count, char** arguments) {
  spank_context_t context = spank_context();
  if (context != S_CTX_LOCAL && context != S_CTX_ALLOCATOR && context != S_CTX_REMOTE) return 0;
  FindProgram(count, arguments);
  // The static table of options is not honoured by sbatch and salloc; registering is, everywhere.
  static char name[] = "muster";
  static char argument[] = "LIST";
  static char usage[] =
      "train under muster: ranks, addresses and restarts for the tasks of each step; LIST is "
      "made of options of `muster run`, such as name=exp1,lease=2s";
  spank_option option{};
  option.name = name;
  option.arginfo = argument;
  option.usage = usage;
  option.has_arg = 2;
  option.val = 0;
  option.cb = OnOption;
  if (spank_option_register(spank, &option) != ESPANK_SUCCESS) {
    slurm_error("muster: the option --muster could not be registered");
  }
  return 0;
}

// Nothing may cross the border to C, and an optional plugin must not stop anybody's job.
template <typename Hook>
int Guarded(Hook hook) noexcept {
  try {
    return hook();
  } catch (...) {
    slurm_error("muster: internal error in the plugin; the step goes on without it");
    return -1;
  }
}

}  // namespace
}  // namespace muster::spank

int slurm_spank_init(spank_t spank, int count, char** arguments) {
  return muster::spank::Guarded([&] { return muster::spank::OnInit(spank, count, arguments); });
}

int slurm_spank_local_user_init(spank_t spank, int /*count*/, char** /*arguments*/) {
  return muster::spank::Guarded([&] { return muster::spank::StartHost(spank); });
}

int slurm_spank_user_init(spank_t spank, int /*count*/, char** /*arguments*/) {
  return muster::spank::Guarded([&] { return muster::spank::PassOptionToScript(spank); });
}

int slurm_spank_task_init(spank_t spank, int /*count*/, char** /*arguments*/) {
  return muster::spank::Guarded([&] { return muster::spank::WrapTask(spank); });
}
