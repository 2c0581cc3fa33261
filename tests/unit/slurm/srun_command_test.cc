#include "launcher/slurm/srun_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::slurm {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;
using ::testing::Not;
using ::testing::StartsWith;

AgentsStep Step() {
  AgentsStep step;
  step.nodes = {"n1", "n2", "n4"};
  step.cpus_per_node = {8, 8, 8};
  step.program = {"/opt/muster", "agent"};
  return step;
}

TEST(SrunCommandTest, OneAgentANodeWithAllThatTheJobHas) {
  const SrunCommand command = BuildSrunCommand(Step(), {}).value();
  EXPECT_THAT(
      command.arguments,
      ElementsAre("srun", "--nodes=3", "--ntasks=3", "--ntasks-per-node=1", "--nodelist=n[1-2,4]",
                  "--mem=0", "--overlap", "--cpu-bind=none", "--gpu-bind=none", "--mpi=none",
                  "--no-kill", "--kill-on-bad-exit=0", "--wait=0", "--export=ALL", "--input=none",
                  "--cpus-per-task=8", "/opt/muster", "agent"));
  EXPECT_EQ(command.environment, (EnvironmentMap{{"MUSTER_STEP", "agents"}}));
}

TEST(SrunCommandTest, NodesThatDifferGetNoCommonCount) {
  AgentsStep step = Step();
  step.cpus_per_node = {8, 4, 8};
  EXPECT_THAT(BuildSrunCommand(step, {})->arguments, Not(Contains(StartsWith("--cpus-per-task"))));
  step.cpus_per_node.clear();
  EXPECT_THAT(BuildSrunCommand(step, {})->arguments, Not(Contains(StartsWith("--cpus-per-task"))));
}

TEST(SrunCommandTest, TheUsersOptionsComeLast) {
  AgentsStep step = Step();
  step.gres = "gpu:4";
  step.het_component = 1;
  step.extra_options = {"--container-image=x.sqsh", "--mem=10G"};
  const std::vector<std::string> arguments = BuildSrunCommand(step, {})->arguments;
  const std::vector<std::string> tail(arguments.end() - 6, arguments.end());
  EXPECT_THAT(tail, ElementsAre("--gres=gpu:4", "--het-group=1", "--container-image=x.sqsh",
                                "--mem=10G", "/opt/muster", "agent"));
}

TEST(SrunCommandTest, NothingOfTheScriptsShapeReachesTheStep) {
  EnvironmentMap environment;
  // The list of the field's own troubles; each was seen to change a step.
  for (const char* name : {"SLURM_JOB_NUM_NODES",
                           "SLURM_NNODES",
                           "SLURM_NTASKS",
                           "SLURM_NPROCS",
                           "SLURM_NTASKS_PER_NODE",
                           "SLURM_NTASKS_PER_GPU",
                           "SLURM_JOB_NODELIST",
                           "SLURM_HOSTFILE",
                           "SLURM_MEM_PER_CPU",
                           "SLURM_MEM_PER_GPU",
                           "SLURM_MEM_PER_NODE",
                           "SLURM_GPUS",
                           "SLURM_GPUS_PER_NODE",
                           "SLURM_GPUS_PER_TASK",
                           "SLURM_GPU_BIND",
                           "SLURM_GPU_FREQ",
                           "SLURM_GRES",
                           "SLURM_CPUS_PER_GPU",
                           "SLURM_CPU_BIND",
                           "SLURM_CPU_BIND_LIST",
                           "SLURM_MEM_BIND",
                           "SLURM_DISTRIBUTION",
                           "SLURM_EXACT",
                           "SLURM_EXCLUSIVE",
                           "SLURM_OVERLAP",
                           "SLURM_OVERCOMMIT",
                           "SLURM_NO_KILL",
                           "SLURM_KILL_BAD_EXIT",
                           "SLURM_WAIT",
                           "SLURM_TIMELIMIT",
                           "SLURM_SIGNAL",
                           "SLURM_EXPORT_ENV",
                           "SLURM_THREADS_PER_CORE",
                           "SLURM_LABELIO",
                           "SLURM_UNBUFFEREDIO",
                           "SLURM_MPI_TYPE",
                           "SLURM_STDINMODE",
                           "SLURM_STDOUTMODE",
                           "SLURM_STDERRMODE",
                           "SLURM_PROLOG",
                           "SLURM_EPILOG",
                           "SLURM_TASK_PROLOG",
                           "SLURM_TASK_EPILOG",
                           "SLURM_RESERVATION",
                           "SLURM_QOS",
                           "SLURM_PARTITION",
                           "SLURM_ACCOUNT",
                           "SLURM_DEPENDENCY",
                           "SLURM_REMOTE_CWD",
                           "SLURM_WORKING_DIR",
                           "SRUN_CPUS_PER_TASK",
                           "SLURM_CPUS_PER_TASK",
                           "SLURM_STEP_GRES",
                           "SLURM_HINT",
                           "SRUN_EXPORT_ENV",
                           "SLURM_TRES_PER_TASK",
                           "SLURM_OPEN_MODE"}) {
    environment[name] = "x";
  }
  EnvironmentMap kept = {{"SLURM_JOB_ID", "9"},
                         {"SLURM_CONF", "/etc/s"},
                         {"SLURM_RESTART_COUNT", "1"},
                         {"SLURM_CLUSTER_NAME", "c"},
                         {"PATH", "/bin"},
                         {"OMP_NUM_THREADS", "4"},
                         {"SLURM_SUBMIT_DIR", "/home"},
                         {"SLURM_TOPOLOGY_ADDR", "s0.n1"}};
  environment.insert(kept.begin(), kept.end());
  kept["MUSTER_STEP"] = "agents";
  EXPECT_EQ(BuildSrunCommand(Step(), environment)->environment, kept);
}

TEST(SrunCommandTest, SecretsTravelInTheEnvironmentOnly) {
  AgentsStep step = Step();
  step.added = {{"MUSTER_JOIN_SECRET", "5ecret"}};
  const SrunCommand command = BuildSrunCommand(step, {{"MUSTER_JOIN_SECRET", "old"}}).value();
  EXPECT_EQ(command.environment.at("MUSTER_JOIN_SECRET"), "5ecret");
  EXPECT_THAT(command.arguments, Not(Contains(HasSubstr("5ecret"))));
}

TEST(SrunCommandTest, AStepOfNothingIsRefused) {
  AgentsStep step = Step();
  step.nodes.clear();
  EXPECT_FALSE(BuildSrunCommand(step, {}).ok());
  step = Step();
  step.program.clear();
  EXPECT_FALSE(BuildSrunCommand(step, {}).ok());
}

}  // namespace
}  // namespace muster::slurm
