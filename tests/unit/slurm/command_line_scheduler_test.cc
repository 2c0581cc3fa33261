// The command-line body against tools that record how they were called and answer as Slurm 22.05.

#include "launcher/slurm/command_line_scheduler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

#include "common/text.h"

namespace muster::slurm {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr Duration kDeadline = std::chrono::seconds(30);

class CommandLineSchedulerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/muster_tools_XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    folder_ = name;
  }
  void TearDown() override {
    for (const char* file : {"/scontrol", "/sinfo", "/scancel", "/sbatch", "/calls"}) {
      unlink((folder_ + file).c_str());
    }
    rmdir(folder_.c_str());
  }
  // A tool that writes its arguments, one in brackets each, and then does `body`.
  void Tool(const std::string& name, const std::string& body) {
    const std::string path = folder_ + "/" + name;
    std::ofstream(path) << "#!/bin/sh\n{ printf '" << name
                        << "'; for a in \"$@\"; do printf ' [%s]' "
                        << "\"$a\"; done; echo; } >> " << folder_ << "/calls\n"
                        << body << "\n";
    chmod(path.c_str(), 0700);
  }
  std::string Calls() const {
    std::ifstream file(folder_ + "/calls");
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
  }
  CommandLineScheduler Make(EnvironmentMap environment = {}) const {
    environment["PATH"] = "/usr/bin:/bin";
    return CommandLineScheduler(std::move(environment), folder_);
  }

  std::string folder_;
  const JobId job_{.id = 7};
  const JobId task_{.id = 15, .array_job = 12, .array_task = 1};
};

TEST_F(CommandLineSchedulerTest, ReadsAJobInUtcAndWithoutDisturbingVariables) {
  Tool("scontrol",
       "echo \"JobId=7 JobName=x UserId=u(1) GroupId=g(1) MCS_label=N/A JobState=RUNNING "
       "Reason=$TZ Restarts=2 Requeue=1 NodeList=n1 BatchHost=n1 NumNodes=1 Partition=p "
       "Command=(null) WorkDir=/ Comment=[$SLURM_JOBID$SLURM_TIME_FORMAT$SLURM_CONF] StdErr=/x\"");
  CommandLineScheduler slurm =
      Make({{"SLURM_JOBID", "7"}, {"SLURM_TIME_FORMAT", "relative"}, {"SLURM_CONF", "/conf"}});
  const JobInfo info = slurm.ReadJob(job_, kDeadline).value();
  EXPECT_EQ(info.restart_count, 2U);
  EXPECT_EQ(info.reason, "UTC");
  EXPECT_EQ(info.comment, "[/conf]");
  EXPECT_EQ(Calls(), "scontrol [-o] [show] [job] [7]\n");
}

TEST_F(CommandLineSchedulerTest, WordsOfEveryRequest) {
  for (const char* tool : {"scontrol", "scancel"}) Tool(tool, "exit 0");
  CommandLineScheduler slurm = Make();
  EXPECT_TRUE(slurm.DropNodes(job_, {"n1", "n2", "n4"}, kDeadline).ok());
  EXPECT_TRUE(slurm.Requeue(job_, RequeueMode::kIncomplete, kDeadline).ok());
  EXPECT_TRUE(slurm.Requeue(task_, RequeueMode::kAlsoFailed, kDeadline).ok());
  EXPECT_TRUE(slurm.AllowRequeue(task_, kDeadline).ok());
  PendingUpdate update;
  update.excluded_nodes = {"n3", "n4"};
  update.start_in = std::chrono::milliseconds(2500);
  EXPECT_TRUE(slurm.UpdatePending(job_, update, kDeadline).ok());
  update = {};
  update.node_count = 2;
  EXPECT_TRUE(slurm.UpdatePending(task_, update, kDeadline).ok());
  EXPECT_TRUE(slurm.SetComment(job_, "a b=c", kDeadline).ok());
  EXPECT_TRUE(slurm.Cancel(task_, kDeadline).ok());
  EXPECT_EQ(Calls(),
            "scontrol [update] [JobId=7] [NodeList=n[1-2,4]]\n"
            "scontrol [requeue] [Incomplete] [7]\n"
            "scontrol [requeue] [12_1]\n"
            "scontrol [update] [JobId=12_1] [Requeue=1]\n"
            "scontrol [update] [JobId=7] [ExcNodeList=n[3-4]] [StartTime=now+3]\n"
            "scontrol [update] [JobId=12_1] [ExcNodeList=] [NumNodes=2]\n"
            "scontrol [update] [JobId=7] [Comment=a b=c]\n"
            "scancel [12_1]\n");
  EXPECT_FALSE(slurm.DropNodes(job_, {}, kDeadline).ok());
}

TEST_F(CommandLineSchedulerTest, NodesAndPartitions) {
  Tool("scontrol", "echo 'NodeName=n1 State=IDLE X=1'; echo 'NodeName=n2 State=DOWN X=1'");
  Tool("sinfo", "echo 'n1|idle|none'; echo 'n2|down*|gone'");
  CommandLineScheduler slurm = Make();
  EXPECT_EQ(slurm.ReadNodes({"n1", "n2"}, kDeadline)->size(), 2U);
  EXPECT_TRUE(slurm.ReadNodes({}, kDeadline)->empty());
  const std::vector<NodeInfo> nodes = slurm.ReadPartition("p,q", kDeadline).value();
  EXPECT_TRUE(nodes[0].usable);
  EXPECT_TRUE(nodes[1].down);
  EXPECT_EQ(Calls(),
            "scontrol [-o] [show] [node] [n[1-2]]\n"
            "sinfo [-h] [-N] [-p] [p,q] [-o] [%N|%T|%E]\n");
}

TEST_F(CommandLineSchedulerTest, ErrorsOnEitherStream) {
  CommandLineScheduler slurm = Make();
  EXPECT_EQ(slurm.ReadJob(job_, kDeadline).status().code(), StatusCode::kNotFound);  // no tool
  Tool("scontrol", "echo 'Job 7 not found'; exit 1");
  EXPECT_EQ(slurm.ReadJob(job_, kDeadline).status().code(), StatusCode::kNotFound);
  Tool("scontrol", "echo 'Unable to contact slurm controller (connect failure)' >&2; exit 1");
  EXPECT_EQ(slurm.ReadJob(job_, kDeadline).status().code(), StatusCode::kUnavailable);
  Tool("scontrol", "sleep 100");
  const Status late = slurm.Requeue(job_, RequeueMode::kIncomplete, std::chrono::milliseconds(300));
  EXPECT_EQ(late.code(), StatusCode::kDeadlineExceeded);
}

TEST_F(CommandLineSchedulerTest, Submits) {
  Tool("sbatch", "cat >> " + folder_ + "/calls; echo \"in $PWD $X\" >> " + folder_ +
                     "/calls; echo '42;cluster'");
  CommandLineScheduler slurm = Make();
  SubmitRequest request;
  request.arguments = {"--nodes=2", "--comment=a b"};
  request.environment = {{"PATH", "/bin"}, {"X", "y"}};
  request.directory = "/usr";
  request.script = "#!/bin/sh\n";
  EXPECT_EQ(slurm.Submit(request, kDeadline).value(), "42;cluster");
  EXPECT_EQ(Calls(), "sbatch [--parsable] [--nodes=2] [--comment=a b]\n#!/bin/sh\nin /usr y\n");
  Tool("sbatch", "echo 'hello'");
  EXPECT_EQ(slurm.Submit(request, kDeadline).status().code(), StatusCode::kDataLoss);
  Tool(
      "sbatch",
      "echo 'sbatch: error: Batch job submission failed: Invalid node name specified' >&2; exit 1");
  const auto refused = slurm.Submit(request, kDeadline);
  EXPECT_EQ(refused.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(refused.status().message(), HasSubstr("Invalid node name"));
  Tool("sbatch",
       "echo 'sbatch: Job 4 to start at 2026-11-30T23:31:20 using 8 processors on nodes n1 in "
       "partition p' >&2");
  EXPECT_EQ(slurm.EstimateStart(request, kDeadline).value(),
            "start at 2026-11-30T23:31:20 using 8 processors on nodes n1 in partition p");
}

TEST_F(CommandLineSchedulerTest, GivesTheBatchScript) {
  Tool("scontrol", "printf '#!/bin/sh\\ntrue\\n'");
  EXPECT_EQ(Make().BatchScript(task_, kDeadline).value(), "#!/bin/sh\ntrue\n");
  EXPECT_EQ(Calls(), "scontrol [write] [batch_script] [12_1] [-]\n");
}

}  // namespace
}  // namespace muster::slurm
