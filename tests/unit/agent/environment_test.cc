#include "launcher/agent/worker_environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "launcher/agent/supervisor_machine.h"

namespace muster::agent {
namespace {

// Worker `slot` of an agent, from the order that the daemon would send.
WorkerFacts Facts(std::uint32_t first_rank, std::uint32_t workers, std::uint32_t slot,
                  std::uint32_t world = 8, std::uint32_t nodes = 2) {
  protocol::Order order;
  order.kind = protocol::OrderKind::kRun;
  order.fence = {1, 3};
  order.assignment.node_rank = first_rank == 0 ? 0 : 1;
  order.assignment.node_count = nodes;
  order.assignment.first_rank = first_rank;
  order.assignment.workers = workers;
  order.assignment.local_world_size = workers;
  order.assignment.world_size = world;
  order.assignment.previous_world_size = 6;
  order.assignment.restart_count = 2;
  order.assignment.tasks_per_node = "4(x2)";
  order.master_address = "10.0.0.1";
  order.master_port = 4711;
  order.blame.cause = protocol::Cause::kNode;
  WorkerFacts facts;
  facts.round = MakeRoundInfo(order, slot, "10.0.0.2", "job-7.train");
  facts.tasks_per_node = order.assignment.tasks_per_node;
  facts.run_name = "train";
  facts.agent_socket = "/tmp/s";
  facts.local_dir = "/tmp/l";
  facts.error_file = "/tmp/e";
  facts.worker_mark = "aa-1";
  facts.cpus = 4;
  return facts;
}

Environment Make(const WorkerFacts& facts, const Environment& base = {},
                 const Options& options = {}) {
  return MakeWorkerEnvironment(base, options, facts).environment;
}

TEST(WorkerEnvironment, TorchrunsNames) {
  const Environment env = Make(Facts(4, 4, 2));
  EXPECT_EQ(env.at("RANK"), "6");
  EXPECT_EQ(env.at("LOCAL_RANK"), "2");
  EXPECT_EQ(env.at("WORLD_SIZE"), "8");
  EXPECT_EQ(env.at("LOCAL_WORLD_SIZE"), "4");
  EXPECT_EQ(env.at("GROUP_RANK"), "1");
  EXPECT_EQ(env.at("GROUP_WORLD_SIZE"), "2");
  EXPECT_EQ(env.at("ROLE_RANK"), "6");
  EXPECT_EQ(env.at("ROLE_WORLD_SIZE"), "8");
  EXPECT_EQ(env.at("NODE_RANK"), "1");
  EXPECT_EQ(env.at("MASTER_ADDR"), "10.0.0.1");
  EXPECT_EQ(env.at("MASTER_PORT"), "4711");
  EXPECT_EQ(env.at("TORCHELASTIC_RESTART_COUNT"), "2");
  EXPECT_EQ(env.at("TORCHELASTIC_RUN_ID"), "job-7.train");
  EXPECT_EQ(env.at("TORCHELASTIC_ERROR_FILE"), "/tmp/e");
  EXPECT_NE(env.at("TORCHELASTIC_USE_AGENT_STORE"), "True") << "no agent serves a store";
}

TEST(WorkerEnvironment, Musters) {
  const Environment env = Make(Facts(4, 4, 2));
  EXPECT_EQ(env.at("MUSTER_RUN_ID"), "job-7.train");
  EXPECT_EQ(env.at("MUSTER_RUN_NAME"), "train");
  EXPECT_EQ(env.at("MUSTER_ATTEMPT"), "1");
  EXPECT_EQ(env.at("MUSTER_ROUND"), "3");
  EXPECT_EQ(env.at("MUSTER_RESTART_CAUSE"), "node");
  EXPECT_EQ(env.at("MUSTER_PREVIOUS_WORLD_SIZE"), "6");
  EXPECT_EQ(env.at("MUSTER_AGENT_SOCKET"), "/tmp/s");
  EXPECT_FALSE(env.contains("MUSTER_STATE_DIR")) << "none is known: no empty variable";
}

TEST(WorkerEnvironment, SlurmsAsIfTheWorkerWereATask) {
  const Environment base = {{"SLURM_JOB_ID", "7"},
                            {"SLURM_PROCID", "1"},
                            {"SLURM_LOCALID", "0"},
                            {"SLURM_NTASKS", "2"},
                            {"SLURM_STEP_TASKS_PER_NODE", "1(x2)"},
                            {"SLURM_NTASKS_PER_NODE", "1"}};
  const Environment env = Make(Facts(4, 4, 2), base);
  EXPECT_EQ(env.at("SLURM_PROCID"), "6");
  EXPECT_EQ(env.at("SLURM_LOCALID"), "2");
  EXPECT_EQ(env.at("SLURM_NODEID"), "1");
  EXPECT_EQ(env.at("SLURM_NTASKS"), "8");
  EXPECT_EQ(env.at("SLURM_NPROCS"), "8");
  EXPECT_EQ(env.at("SLURM_NNODES"), "2");
  EXPECT_EQ(env.at("SLURM_GTIDS"), "4,5,6,7");
  EXPECT_EQ(env.at("SLURM_TASKS_PER_NODE"), "4(x2)");
  EXPECT_EQ(env.at("SLURM_STEP_NUM_TASKS"), "8");
  EXPECT_EQ(env.at("SLURM_STEP_NUM_NODES"), "2");
  EXPECT_EQ(env.at("SLURM_STEP_TASKS_PER_NODE"), "4(x2)");
  EXPECT_EQ(env.at("SLURM_NTASKS_PER_NODE"), "4");
  EXPECT_EQ(env.at("SLURM_JOB_ID"), "7");
  EXPECT_EQ(env.at("MUSTER_SLURM_PROCID"), "1");
  EXPECT_EQ(env.at("MUSTER_SLURM_NTASKS"), "2");
  EXPECT_EQ(env.at("MUSTER_SLURM_STEP_TASKS_PER_NODE"), "1(x2)");
  EXPECT_FALSE(env.contains("MUSTER_SLURM_JOB_ID")) << "it was not changed";
}

TEST(WorkerEnvironment, NoSlurmNamesOutsideSlurm) {
  for (const auto& [name, value] : Make(Facts(0, 4, 0))) {
    EXPECT_FALSE(name.starts_with("SLURM_")) << name;
  }
}

TEST(WorkerEnvironment, RaggedNodesHaveNoTasksPerNode) {
  WorkerFacts facts = Facts(4, 3, 0, 7);  // 4 + 3
  facts.tasks_per_node = "4,3";
  const Environment env = Make(facts, {{"SLURM_JOB_ID", "7"}, {"SLURM_NTASKS_PER_NODE", "4"}});
  EXPECT_FALSE(env.contains("SLURM_NTASKS_PER_NODE"));
  EXPECT_EQ(env.at("MUSTER_SLURM_NTASKS_PER_NODE"), "4");
  EXPECT_EQ(env.at("SLURM_TASKS_PER_NODE"), "4,3");
  EXPECT_EQ(env.at("SLURM_GTIDS"), "4,5,6");
}

TEST(WorkerEnvironment, SeveralAgentsANode) {
  // The third of four agents on node 1, one worker each.
  WorkerFacts facts = Facts(6, 1, 0);
  facts.round.local_rank = 2;
  facts.round.local_world_size = 4;
  const Environment env = Make(facts, {{"SLURM_JOB_ID", "7"}});
  EXPECT_EQ(env.at("RANK"), "6");
  EXPECT_EQ(env.at("LOCAL_RANK"), "2");
  EXPECT_EQ(env.at("SLURM_GTIDS"), "4,5,6,7");
}

TEST(WorkerEnvironment, FactsOverrideAndAreNamedSettingsDoNot) {
  WorkerFacts facts = Facts(0, 4, 1);
  facts.network = {{"NCCL_DEBUG", "INFO", "why", network::SettingKind::kSafe},
                   {"NCCL_IB_TIMEOUT", "22", "why", network::SettingKind::kAdvice}};
  const Environment base = {{"RANK", "99"},           {"MASTER_ADDR", "10.0.0.1"},
                            {"OMP_NUM_THREADS", "7"}, {"NCCL_DEBUG", "WARN"},
                            {"MASTER_PORT", "29500"}, {"PYTHONUNBUFFERED", ""}};
  const Made made = MakeWorkerEnvironment(base, {}, facts);
  EXPECT_EQ(made.environment.at("RANK"), "1");
  EXPECT_EQ(made.environment.at("MASTER_PORT"), "4711");
  EXPECT_EQ(made.environment.at("OMP_NUM_THREADS"), "7");
  EXPECT_EQ(made.environment.at("NCCL_DEBUG"), "WARN");
  EXPECT_EQ(made.environment.at("PYTHONUNBUFFERED"), "") << "empty is a choice too";
  EXPECT_FALSE(made.environment.contains("NCCL_IB_TIMEOUT")) << "advice is not set";
  std::set<std::string> named;
  for (const Replaced& replaced : made.replaced) named.insert(replaced.name);
  EXPECT_EQ(named, (std::set<std::string>{"RANK", "MASTER_PORT"}));
}

TEST(WorkerEnvironment, SettingsAreSetWhereNobodyDid) {
  WorkerFacts facts = Facts(0, 4, 1);
  facts.network = {{"NCCL_DEBUG", "INFO", "why", network::SettingKind::kSafe}};
  const Environment env = Make(facts);
  EXPECT_EQ(env.at("OMP_NUM_THREADS"), "4");
  EXPECT_EQ(env.at("PYTHONUNBUFFERED"), "1");
  EXPECT_EQ(env.at("NCCL_DEBUG"), "INFO");
}

TEST(WorkerEnvironment, KeepEnvKeepsAFact) {
  Options options;
  options.keep_environment = {"MASTER_PORT", "LOCAL_RANK"};
  const Made made = MakeWorkerEnvironment({{"MASTER_PORT", "29500"}}, options, Facts(0, 4, 1));
  EXPECT_EQ(made.environment.at("MASTER_PORT"), "29500");
  EXPECT_EQ(made.environment.at("LOCAL_RANK"), "1") << "nothing of the user's to keep";
  EXPECT_EQ(made.kept, std::vector<std::string>{"MASTER_PORT"});
}

TEST(WorkerEnvironment, SetEnvironmentCountsAsTheUsers) {
  Options options;
  options.set_environment = {{"OMP_NUM_THREADS", "2"}, {"RANK", "5"}, {"MINE", "x y"}};
  const Environment env = Make(Facts(0, 4, 1), {{"OMP_NUM_THREADS", "1"}}, options);
  EXPECT_EQ(env.at("OMP_NUM_THREADS"), "2");
  EXPECT_EQ(env.at("RANK"), "1");
  EXPECT_EQ(env.at("MINE"), "x y");
}

TEST(WorkerEnvironment, MpiStartersAndOurOwnAreRemoved) {
  const Environment base = {{"PMI_RANK", "0"},
                            {"PMIX_NAMESPACE", "x"},
                            {"OMPI_COMM_WORLD_SIZE", "1"},
                            {"MUSTER_JOIN_SECRET", "s"},
                            {"MUSTER_AGENT_OPTIONS", "{}"},
                            {"MUSTER_CERTIFICATE", "c"},
                            {"MUSTER_LOCAL_NODE", "local0"},
                            {"PMIXED", "stays"}};
  const Environment env = Make(Facts(0, 4, 1), base);
  for (const auto& [name, value] : base) {
    EXPECT_EQ(env.contains(name), name == "PMIXED") << name;
  }
}

TEST(WorkerEnvironment, DevicesAreOpaqueAndTheIndexIsTheirPosition) {
  const auto index = [](std::uint32_t local_rank, const std::string& visible) {
    WorkerFacts facts = Facts(0, 8, 0);
    facts.round.local_rank = local_rank;
    facts.round.local_world_size = 8;
    facts.devices = VisibleDevices({{"CUDA_VISIBLE_DEVICES", visible}}, 0);
    const Environment env =
        MakeWorkerEnvironment({{"CUDA_VISIBLE_DEVICES", visible}}, {}, facts).environment;
    EXPECT_EQ(env.at("CUDA_VISIBLE_DEVICES"), visible) << "never cut or renamed";
    return env.at("MUSTER_DEVICE_INDEX");
  };
  EXPECT_EQ(index(3, "0,1,2,3,4,5,6,7"), "3");
  EXPECT_EQ(index(1, "2,3"), "1") << "not 3: the position";
  EXPECT_EQ(index(5, "0,1,2,3"), "1") << "more ranks than devices";
  EXPECT_EQ(index(7, "3"), "0") << "one visible device a task";
  EXPECT_EQ(index(1, "GPU-8f3a,GPU-77aa"), "1");
  EXPECT_EQ(index(2, "MIG-a/7/0,MIG-a/8/0"), "0");
  EXPECT_EQ(index(2, ""), "2") << "none known: the local rank";
  EXPECT_EQ(index(0, "NoDevFiles"), "0");
}

TEST(WorkerEnvironment, VisibleDevices) {
  EXPECT_EQ(VisibleDevices({}, 2), (std::vector<std::string>{"0", "1"}));
  EXPECT_EQ(VisibleDevices({{"CUDA_VISIBLE_DEVICES", ""}}, 2).size(), 0U);
  EXPECT_EQ(VisibleDevices({{"CUDA_VISIBLE_DEVICES", "1,-1,0"}}, 2).size(), 1U);
  EXPECT_EQ(VisibleDevices({{"ROCR_VISIBLE_DEVICES", "4,5"}}, 0),
            (std::vector<std::string>{"4", "5"}));
}

TEST(WorkerEnvironment, Jax) {
  WorkerFacts facts = Facts(4, 4, 2);
  facts.devices = {"0", "1", "2", "3", "4", "5", "6", "7"};
  Environment env = Make(facts);
  EXPECT_EQ(env.at("JAX_COORDINATOR_ADDRESS"), "10.0.0.1:4711");
  EXPECT_EQ(env.at("JAX_PROCESS_ID"), "6");
  EXPECT_EQ(env.at("JAX_NUM_PROCESSES"), "8");
  EXPECT_EQ(env.at("JAX_LOCAL_DEVICE_IDS"), "4,5") << "two of eight for the third of four";
  facts.devices = {"0"};
  EXPECT_EQ(Make(facts).at("JAX_LOCAL_DEVICE_IDS"), "0");
  facts.round.local_world_size = 1;
  EXPECT_FALSE(Make(facts).contains("JAX_LOCAL_DEVICE_IDS")) << "one process takes all";
  facts.round.master_address = "fd00::1";
  EXPECT_EQ(Make(facts).at("JAX_COORDINATOR_ADDRESS"), "[fd00::1]:4711");
}

TEST(WorkerEnvironment, EveryRowHasANameAReasonAndComesOnce) {
  WorkerFacts facts = Facts(4, 4, 2);
  facts.devices = {"0", "1"};
  facts.network = network::NetworkSettings({"eth0", "/tmp/x", 5, true});
  std::set<std::string> names;
  for (const Row& row : WorkerRows(facts, {{"SLURM_JOB_ID", "1"}, {"PMI_RANK", "0"}})) {
    EXPECT_FALSE(row.name.empty());
    EXPECT_GT(row.reason.size(), 5U) << row.name;
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
  }
  EXPECT_GT(names.size(), 50U);
}

}  // namespace
}  // namespace muster::agent
