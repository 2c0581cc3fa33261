#include "launcher/slurm/srun_command.h"

#include <algorithm>

#include "common/host_list.h"
#include "common/text.h"
#include "proto/environment.h"

namespace muster::slurm {
namespace {

// All that srun reads as an option (srun(1) INPUT ENVIRONMENT VARIABLES of 22.05, and what later
// versions added), but for what says where Slurm is or how loud it talks: SLURM_CONF,
// SLURM_CLUSTERS, SLURM_JOB_ID, SLURM_DEBUG, SLURM_EXIT_ERROR, SLURM_UMASK.
constexpr std::string_view kInputs[] = {
    "SLURM_ACCOUNT",        "SLURM_BCAST",         "SLURM_BCAST_EXCLUDE",  "SLURM_BURST_BUFFER",
    "SLURM_COMPRESS",       "SLURM_CONSTRAINT",    "SLURM_CORE_SPEC",      "SLURM_CPUS_PER_GPU",
    "SLURM_CPUS_PER_TASK",  "SLURM_CPU_FREQ_REQ",  "SLURM_DELAY_BOOT",     "SLURM_DEPENDENCY",
    "SLURM_DISABLE_STATUS", "SLURM_DISTRIBUTION",  "SLURM_DIST_PLANESIZE", "SLURM_EPILOG",
    "SLURM_EXACT",          "SLURM_EXCLUSIVE",     "SLURM_EXPORT_ENV",     "SLURM_GRES",
    "SLURM_GRES_FLAGS",     "SLURM_HINT",          "SLURM_HOSTFILE",       "SLURM_IMMEDIATE",
    "SLURM_JOB_NODELIST",   "SLURM_JOB_NUM_NODES", "SLURM_KILL_BAD_EXIT",  "SLURM_LABELIO",
    "SLURM_MPI_TYPE",       "SLURM_MULTI_PROG",    "SLURM_NNODES",         "SLURM_NODELIST",
    "SLURM_NO_KILL",        "SLURM_NPROCS",        "SLURM_OPEN_MODE",      "SLURM_OVERCOMMIT",
    "SLURM_OVERLAP",        "SLURM_PARTITION",     "SLURM_PROLOG",         "SLURM_QOS",
    "SLURM_RELATIVE",       "SLURM_REMOTE_CWD",    "SLURM_REQ_SWITCH",     "SLURM_RESERVATION",
    "SLURM_RESV_PORTS",     "SLURM_SIGNAL",        "SLURM_SPREAD_JOB",     "SLURM_STDERRMODE",
    "SLURM_STDINMODE",      "SLURM_STDOUTMODE",    "SLURM_STEP_GRES",      "SLURM_TASKS_PER_NODE",
    "SLURM_TASK_EPILOG",    "SLURM_TASK_PROLOG",   "SLURM_THREADS",        "SLURM_THREADS_PER_CORE",
    "SLURM_THREAD_SPEC",    "SLURM_TIMELIMIT",     "SLURM_TRES_BIND",      "SLURM_TRES_PER_TASK",
    "SLURM_UNBUFFEREDIO",   "SLURM_USE_MIN_NODES", "SLURM_WAIT",           "SLURM_WAIT4SWITCH",
    "SLURM_WCKEY",          "SLURM_WORKING_DIR",   "SRUN_CONTAINER",       "SRUN_CPUS_PER_TASK",
    "SRUN_EXPORT_ENV",
};
// Families with several members: SLURM_CPU_BIND_TYPE, SLURM_MEM_PER_GPU, SLURM_GPUS_PER_NODE, ...
// SLURM_GPUS_ON_NODE is a fact of the batch host, and wrong on others.
constexpr std::string_view kInputFamilies[] = {
    "SLURM_CPU_BIND", "SLURM_MEM_BIND", "SLURM_MEM_PER_", "SLURM_GPU", "SLURM_NTASKS", "SRUN_TRES_",
};

bool IsSrunInput(std::string_view name) {
  if (std::find(std::begin(kInputs), std::end(kInputs), name) != std::end(kInputs)) return true;
  return std::any_of(std::begin(kInputFamilies), std::end(kInputFamilies),
                     [name](std::string_view family) { return name.starts_with(family); });
}

}  // namespace

EnvironmentMap WithoutSrunInputs(const EnvironmentMap& environment) {
  EnvironmentMap out;
  for (const auto& [name, value] : environment) {
    if (!IsSrunInput(name)) out.emplace(name, value);
  }
  return out;
}

Result<SrunCommand> BuildSrunCommand(const AgentsStep& step, const EnvironmentMap& environment) {
  if (step.nodes.empty()) return InvalidArgument("the agents' step has no node");
  if (step.program.empty()) return InvalidArgument("the agents' step has no program");
  const std::string count = std::to_string(step.nodes.size());
  SrunCommand command;
  std::vector<std::string>& arguments = command.arguments;
  arguments = {
      "srun", "--nodes=" + count, "--ntasks=" + count, "--ntasks-per-node=1",
      "--nodelist=" + CompressHostList(step.nodes),
      // The job's memory as it is, and beside any other step: `srun --pty bash` holds everything.
      "--mem=0", "--overlap",
      // Agents divide CPUs and devices among the workers themselves.
      "--cpu-bind=none", "--gpu-bind=none",
      // Neither PMI variables nor a PMIx server in every agent.
      "--mpi=none",
      // The step outlives its tasks and nodes; who ends is the daemon's decision.
      "--no-kill", "--kill-on-bad-exit=0", "--wait=0",
      // A job submitted with --export=NONE would start agents without endpoint and secret.
      "--export=ALL",
      // srun in the background of a terminal would be stopped for reading it.
      "--input=none"};
  // No --unbuffered: it puts a pty between, which joins the two streams and turns each end of line
  // into two bytes. Agents write whole lines at once.
  //
  // -c makes a step exact. Where nodes differ one number is right for none of them: without it the
  // step has all CPUs of each node.
  const std::vector<int>& cpus = step.cpus_per_node;
  if (!cpus.empty() && std::count(cpus.begin(), cpus.end(), cpus.front()) ==
                           static_cast<std::ptrdiff_t>(cpus.size())) {
    arguments.push_back(Concat("--cpus-per-task=", cpus.front()));
  }
  if (!step.gres.empty()) arguments.push_back("--gres=" + step.gres);
  if (step.het_component.has_value()) {
    arguments.push_back(Concat("--het-group=", *step.het_component));
  }
  arguments.insert(arguments.end(), step.extra_options.begin(), step.extra_options.end());
  arguments.insert(arguments.end(), step.program.begin(), step.program.end());
  command.environment = WithoutSrunInputs(environment);
  for (const auto& [name, value] : step.added) command.environment[name] = value;
  command.environment[environment::kStep] = environment::kStepAgents;
  return command;
}

}  // namespace muster::slurm
