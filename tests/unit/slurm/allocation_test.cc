#include "launcher/slurm/allocation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "common/random.h"
#include "common/text.h"

namespace muster::slurm {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// As recorded on 22.05: sbatch -N2 -n3 -c2.
EnvironmentMap Batch() {
  return {{"SLURMD_NODENAME", "n1"},
          {"SLURM_CLUSTER_NAME", "rec"},
          {"SLURM_CPUS_ON_NODE", "4"},
          {"SLURM_CPUS_PER_TASK", "2"},
          {"SLURM_JOBID", "9"},
          {"SLURM_JOB_CPUS_PER_NODE", "4,2"},
          {"SLURM_JOB_ID", "9"},
          {"SLURM_JOB_NAME", "env.sh"},
          {"SLURM_JOB_NODELIST", "n[1-2]"},
          {"SLURM_JOB_NUM_NODES", "2"},
          {"SLURM_JOB_PARTITION", "p"},
          {"SLURM_NNODES", "2"},
          {"SLURM_NODEID", "0"},
          {"SLURM_NODELIST", "n[1-2]"},
          {"SLURM_NODE_ALIASES", "(null)"},
          {"SLURM_NTASKS", "3"},
          {"SLURM_PROCID", "0"},
          {"SLURM_SUBMIT_DIR", "/home/u"},
          {"SLURM_TASKS_PER_NODE", "2,1"},
          {"SLURM_TASK_PID", "16548"}};
}

// A ragged step of three tasks on two of four nodes; SLURM_NNODES and the like are the step's.
EnvironmentMap InStep() {
  EnvironmentMap e = Batch();
  e["SLURM_JOB_NODELIST"] = "n[1-4]";
  e["SLURM_JOB_NUM_NODES"] = "4";
  e["SLURM_JOB_CPUS_PER_NODE"] = "8(x4)";
  e["SLURM_STEP_ID"] = e["SLURM_STEPID"] = "0";
  e["SLURM_STEP_NODELIST"] = e["SLURM_NODELIST"] = "n[2-3]";
  e["SLURM_STEP_NUM_NODES"] = e["SLURM_NNODES"] = "2";
  e["SLURM_STEP_NUM_TASKS"] = e["SLURM_NTASKS"] = "3";
  e["SLURM_STEP_TASKS_PER_NODE"] = e["SLURM_TASKS_PER_NODE"] = "2,1";
  e["SLURM_NODEID"] = "1";
  e["SLURM_PROCID"] = "2";
  e["SLURM_LOCALID"] = "0";
  return e;
}

TEST(AllocationTest, NoJob) {
  const Allocation a = ReadAllocation({{"PATH", "/bin"}, {"SLURM_CONF", "/x"}}).value();
  EXPECT_EQ(a.place, Place::kNoJob);
  EXPECT_THAT(a.nodes, IsEmpty());
}

TEST(AllocationTest, BatchScript) {
  const Allocation a = ReadAllocation(Batch()).value();
  EXPECT_EQ(a.place, Place::kBatch);
  EXPECT_EQ(a.job.Name(), "9");
  EXPECT_THAT(a.nodes, ElementsAre("n1", "n2"));
  EXPECT_THAT(a.tasks_per_node, ElementsAre(2, 1));
  EXPECT_THAT(a.cpus_per_node, ElementsAre(4, 2));
  EXPECT_TRUE(a.tasks_requested);
  EXPECT_EQ(a.restart_count, 0U);
  EXPECT_EQ(a.cluster, "rec");
  EXPECT_EQ(a.submit_dir, "/home/u");
  EXPECT_EQ(a.partition, "p");
  EXPECT_EQ(a.node_name, "n1");
  EXPECT_FALSE(a.step.has_value());
  EXPECT_FALSE(a.gpus_on_node.has_value());
}

TEST(AllocationTest, AnExclusiveJobDidNotAskForItsTasks) {
  EnvironmentMap e = Batch();
  e.erase("SLURM_NTASKS");
  e["SLURM_TASKS_PER_NODE"] = "8(x2)";
  Allocation a = ReadAllocation(e).value();
  EXPECT_FALSE(a.tasks_requested);
  EXPECT_THAT(a.tasks_per_node, ElementsAre(8, 8));
  e["SLURM_NTASKS_PER_NODE"] = "8";
  EXPECT_TRUE(ReadAllocation(e)->tasks_requested);
}

TEST(AllocationTest, PlaceComesFromTheStepIdAlone) {
  EnvironmentMap e = Batch();
  e["SLURM_STEP_ID"] = "4294967291";
  EXPECT_EQ(ReadAllocation(e)->place, Place::kBatch);
  e["SLURM_STEP_ID"] = "4294967290";
  EXPECT_EQ(ReadAllocation(e)->place, Place::kShell);
  e.erase("SLURM_STEP_ID");
  e["SLURM_JOB_NAME"] = "interactive";
  EXPECT_EQ(ReadAllocation(e)->place, Place::kBatch);
  e.erase("SLURMD_NODENAME");  // salloc's shell on the submit host
  EXPECT_EQ(ReadAllocation(e)->place, Place::kShell);
  e = InStep();
  e["SLURM_JOB_NAME"] = "bash";
  EXPECT_EQ(ReadAllocation(e)->place, Place::kStep);
  e["SLURM_STEP_ID"] = "4294967292";
  EXPECT_FALSE(ReadAllocation(e).ok());
}

TEST(AllocationTest, AStepHasItsOwnNumbers) {
  const Allocation a = ReadAllocation(InStep()).value();
  ASSERT_TRUE(a.step.has_value());
  EXPECT_THAT(a.nodes, ElementsAre("n1", "n2", "n3", "n4"));
  EXPECT_THAT(a.tasks_per_node, IsEmpty());
  EXPECT_THAT(a.step->nodes, ElementsAre("n2", "n3"));
  EXPECT_THAT(a.step->tasks_per_node, ElementsAre(2, 1));
  EXPECT_EQ(a.step->tasks, 3);
  EXPECT_EQ(a.step->node_index, 1);
  EXPECT_EQ(a.step->rank, 2);
}

TEST(AllocationTest, DevicesOfAnSallocShellAreThoseAskedFor) {
  for (const auto& [text, count] : std::map<std::string, int>{
           {"4", 4}, {"a100:4", 4}, {"gpu:a100:2", 2}, {"a100:2,v100:1", 3}, {"0", 0}}) {
    EnvironmentMap e = Batch();
    e["SLURM_GPUS_PER_NODE"] = text;
    EXPECT_EQ(ReadAllocation(e).value().gpus_on_node, count) << text;
    e["SLURM_GPUS_ON_NODE"] = "8";  // a fact is worth more
    EXPECT_EQ(ReadAllocation(e).value().gpus_on_node, 8) << text;
  }
}

TEST(AllocationTest, ArrayTaskHetComponentRestartsAndDevices) {
  EnvironmentMap e = Batch();
  e["SLURM_ARRAY_JOB_ID"] = "7";
  e["SLURM_ARRAY_TASK_ID"] = "0";
  e["SLURM_RESTART_COUNT"] = "2";
  e["SLURM_GPUS_ON_NODE"] = "4";
  e["SLURM_HET_SIZE"] = "2";
  e["SLURM_JOB_ID_HET_GROUP_0"] = "8";
  e["SLURM_JOB_ID_HET_GROUP_1"] = "9";
  const Allocation a = ReadAllocation(e).value();
  EXPECT_EQ(a.job.Name(), "7_0");
  EXPECT_EQ(a.restart_count, 2U);
  EXPECT_EQ(a.gpus_on_node, 4);
  ASSERT_TRUE(a.het.has_value());
  EXPECT_EQ(a.het->size, 2);
  EXPECT_EQ(a.het->offset, 1);
}

TEST(AllocationTest, OldNamesAndExplicitHosts) {
  EnvironmentMap e = Batch();
  e.erase("SLURM_JOB_ID");
  e.erase("SLURM_JOB_NODELIST");
  EXPECT_THAT(ReadAllocation(e)->nodes, ElementsAre("n1", "n2"));
  e["SLURM_NODELIST"] = "bgl[000x133]";
  EXPECT_FALSE(ReadAllocation(e).ok());
  EXPECT_THAT(ReadAllocation(e, "a,b,c")->nodes, ElementsAre("a", "b", "c"));
  EXPECT_FALSE(ReadAllocation(e, "a[").ok());
}

struct Bad {
  const char* name;
  const char* value;
};

void ExpectRefused(EnvironmentMap e, const Bad& bad) {
  e[bad.name] = bad.value;
  const auto result = ReadAllocation(e);
  ASSERT_FALSE(result.ok()) << bad.name << "=" << bad.value;
  EXPECT_EQ(result.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(result.status().message(), HasSubstr(bad.name));
  EXPECT_THAT(result.status().message(), HasSubstr(Quote(bad.value)));
  // What to do.
  EXPECT_THAT(result.status().message(), testing::AnyOf(HasSubstr("unset"), HasSubstr("--hosts")));
}

TEST(AllocationTest, TheImpossibleIsRefusedByNameAndValue) {
  for (const Bad& bad : {Bad{"SLURM_JOB_ID", "x"},
                         Bad{"SLURM_JOB_ID", "0"},
                         Bad{"SLURM_JOB_ID", "12_3"},
                         Bad{"SLURM_STEP_ID", "batch"},
                         Bad{"SLURM_STEP_ID", "4294967293"},
                         Bad{"SLURM_JOB_NODELIST", "n[1-"},
                         Bad{"SLURM_JOB_NODELIST", "n[2-1]"},
                         Bad{"SLURM_JOB_NODELIST", "n1,n1"},
                         Bad{"SLURM_JOB_NUM_NODES", "3"},
                         Bad{"SLURM_JOB_NUM_NODES", "two"},
                         Bad{"SLURM_TASKS_PER_NODE", "2"},
                         Bad{"SLURM_TASKS_PER_NODE", "2(x"},
                         Bad{"SLURM_TASKS_PER_NODE", "2,0"},
                         Bad{"SLURM_JOB_CPUS_PER_NODE", "4(x3)"},
                         Bad{"SLURM_JOB_CPUS_PER_NODE", "lots"},
                         Bad{"SLURM_RESTART_COUNT", "-1"},
                         Bad{"SLURM_RESTART_COUNT", "1.5"},
                         Bad{"SLURM_GPUS_ON_NODE", "gpu:4"},
                         Bad{"SLURM_GPUS_PER_NODE", "a100:many"},
                         Bad{"SLURM_GPUS_PER_NODE", "a100:2,"},
                         Bad{"SLURM_NTASKS", "0"},
                         Bad{"SLURM_NTASKS", "many"},
                         Bad{"SLURM_ARRAY_JOB_ID", "7"},
                         Bad{"SLURM_ARRAY_TASK_ID", "7"},
                         Bad{"SLURM_HET_SIZE", "x"}}) {
    ExpectRefused(Batch(), bad);
  }
  for (const Bad& bad :
       {Bad{"SLURM_STEP_NODELIST", "n[3-5]"}, Bad{"SLURM_STEP_NODELIST", "x["},
        Bad{"SLURM_STEP_NUM_NODES", "4"}, Bad{"SLURM_STEP_TASKS_PER_NODE", "2"},
        Bad{"SLURM_STEP_NUM_TASKS", "4"}, Bad{"SLURM_NODEID", "2"}, Bad{"SLURM_NODEID", "-1"},
        Bad{"SLURM_PROCID", "3"}, Bad{"SLURM_LOCALID", "1"}}) {
    ExpectRefused(InStep(), bad);
  }
}

TEST(AllocationTest, TheMissingIsNamed) {
  EnvironmentMap e = Batch();
  e.erase("SLURM_JOB_NODELIST");
  e.erase("SLURM_NODELIST");
  EXPECT_THAT(ReadAllocation(e).status().message(), HasSubstr("SLURM_JOB_NODELIST"));
  for (const char* name :
       {"SLURM_STEP_NODELIST", "SLURM_STEP_TASKS_PER_NODE", "SLURM_NODEID", "SLURM_PROCID"}) {
    e = InStep();
    e.erase(name);
    EXPECT_THAT(ReadAllocation(e).status().message(), HasSubstr(name));
  }
}

TEST(AllocationTest, RandomValuesNeverCrashAndNeverShrinkTheWorld) {
  Random random(31);
  constexpr std::string_view kBytes = "0129n[]-,(x)_ \xff";
  int accepted = 0;
  for (int round = 0; round < 5000; ++round) {
    EnvironmentMap e = random.Chance(0.5) ? Batch() : InStep();
    auto entry = e.begin();
    std::advance(entry, static_cast<long>(random.Below(e.size())));
    entry->second.clear();
    for (std::uint64_t n = random.Below(8); n > 0; --n) {
      entry->second += kBytes[random.Below(kBytes.size())];
    }
    const auto a = ReadAllocation(e);
    if (!a.ok()) continue;
    ++accepted;
    if (!e["SLURM_JOB_NUM_NODES"].empty()) {
      ASSERT_EQ(std::to_string(a->nodes.size()),
                std::to_string(std::stoi(e["SLURM_JOB_NUM_NODES"])));
    }
  }
  EXPECT_GT(accepted, 300);
}

TEST(EnvironmentMapTest, CapturesAndGivesBack) {
  const char* entries[] = {"B=2=3", "A=1", "A=other", "broken", "E=", nullptr};
  const EnvironmentMap e = CaptureEnvironment(entries);
  EXPECT_THAT(EnvironmentEntries(e), ElementsAre("A=1", "B=2=3", "E="));
  EXPECT_EQ(Lookup(e, "B"), "2=3");
  EXPECT_EQ(Lookup(e, "Z"), "");
}

}  // namespace
}  // namespace muster::slurm
