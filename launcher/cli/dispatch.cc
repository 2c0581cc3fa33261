#include <array>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "common/log.h"
#include "common/text.h"
#include "launcher/agent/agent.h"
#include "launcher/cli/command.h"
#include "launcher/cli/context.h"
#include "launcher/cli/usage.h"
#include "launcher/config/option_table.h"
#include "proto/environment.h"

namespace muster::cli {
namespace {

struct Entry {
  std::string_view name;
  int (*run)(const Words&);
};

int Supervisor(const Words& words) { return agent::SupervisorMain(words); }
int ExecStage(const Words& words) { return agent::ExecStageMain(words); }

constexpr std::array kCommands = {
    Entry{"run", RunCommand},
    Entry{"submit", SubmitCommand},
    Entry{"plan", PlanCommand},
    Entry{"status", StatusCommand},
    Entry{"config", ConfigCommand},
    Entry{"version", VersionCommand},
    Entry{"why", WhyCommand},
    Entry{"logs", LogsCommand},
    Entry{"events", EventsCommand},
    Entry{"jobs", JobsCommand},
    Entry{"cancel", CancelCommand},
    Entry{"stop", StopCommand},
    Entry{"restart", RestartCommand},
    Entry{"agent", AgentCommand},
    Entry{"host", HostCommand},
    Entry{"agent-exec", ExecStage},
    Entry{"agent-supervisor", Supervisor},
};

}  // namespace

std::string ShortHelp() {
  return "muster launches distributed training, keeps its world together, and says what "
         "happened.\n"
         "\n"
         "start a training\n"
         "  muster run -- PROGRAM ARGUMENTS        in an sbatch script or salloc\n"
         "  muster submit -N 4 -- PROGRAM ...      from the login node\n"
         "  muster run --local 2x2 -- PROGRAM ...  on this machine, without Slurm\n"
         "see what it will do, and what it does\n"
         "  muster plan [options of run] -- PROGRAM ...\n"
         "  muster status [JOB | FOLDER]           how it is now\n"
         "  muster why [JOB | FOLDER]              who failed first, and where to look\n"
         "  muster logs [JOB | FOLDER]             the workers' output\n"
         "  muster events [JOB | FOLDER]           all that happened\n"
         "  muster jobs                            your jobs, the newest first\n"
         "change it while it runs\n"
         "  muster cancel | stop | restart [JOB | FOLDER]\n"
         "settings\n"
         "  muster config [--defaults]             every value and where it came from\n"
         "  muster version\n"
         "\n"
         "muster COMMAND --help lists a command's options.\n";
}

int Main(const Words& words) {
  // A task of `srun --muster`: whatever the words are, they are its program's.
  if (const char* problem = std::getenv(environment::kTaskError); problem != nullptr) {
    LogError(problem);
    return exit_code::kUsage;
  }
  if (const char* program = std::getenv(environment::kTaskProgram); program != nullptr) {
    Words task = {program};
    task.insert(task.end(), words.begin(), words.end());
    // The agent's own processes are this program too, and take their words as they are.
    unsetenv(environment::kTaskProgram);
    return agent::AgentMain(std::move(task));
  }
  if (words.empty() || words[0] == "--help" || words[0] == "-h" || words[0] == "help") {
    Print(ShortHelp());
    return words.empty() ? exit_code::kUsage : exit_code::kDone;
  }
  if (words[0] == "--version") return VersionCommand({});
  for (const Entry& entry : kCommands) {
    if (words[0] == entry.name) return entry.run(Words(words.begin() + 1, words.end()));
  }
  std::vector<std::string> names;
  for (const CommandUsage& usage : CommandUsages())
    names.emplace_back(config::CommandName(usage.command));
  LogError(Concat("unknown command ", Quote(words[0]), "; there are ", Join(names, ", "),
                  " (`muster run -- ", words[0], " ...` runs a program)"));
  return exit_code::kUsage;
}

}  // namespace muster::cli
