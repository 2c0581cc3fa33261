#include "launcher/slurm/scontrol_output.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/random.h"
#include "common/text.h"
#include "launcher/slurm/tool_error.h"

namespace muster::slurm {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Recorded on 22.05.8: a running job whose script, argument and comment are full of "=".
constexpr std::string_view kRunning =
    "JobId=7 JobName=job a=b.sh UserId=root(0) GroupId=root(0) MCS_label=N/A Priority=4294901755 "
    "Nice=0 Account=(null) QOS=(null) JobState=RUNNING Reason=None Dependency=(null) Requeue=1 "
    "Restarts=0 BatchFlag=1 Reboot=0 ExitCode=0:0 RunTime=00:00:07 TimeLimit=00:10:00 TimeMin=N/A "
    "SubmitTime=2026-11-30T23:02:57 EligibleTime=2026-11-30T23:02:57 "
    "AccrueTime=2026-11-30T23:02:57 StartTime=2026-11-30T23:02:57 EndTime=2026-11-30T23:12:57 "
    "Deadline=N/A SuspendTime=None SecsPreSuspend=0 LastSchedEval=2026-11-30T23:02:57 "
    "Scheduler=Main Partition=p AllocNode:Sid=vm:3741 ReqNodeList=(null) ExcNodeList=(null) "
    "NodeList=n[1-2] BatchHost=n1 NumNodes=2 NumCPUs=4 NumTasks=2 CPUs/Task=2 "
    "ReqB:S:C:T=0:0:*:* TRES=cpu=4,node=2,billing=4 Socks/Node=* NtasksPerN:B:S:C=0:0:*:* "
    "CoreSpec=* MinCPUsNode=2 MinMemoryNode=0 MinTmpDiskNode=0 Features=(null) "
    "DelayBoot=00:00:00 OverSubscribe=OK Contiguous=0 Licenses=(null) Network=(null) "
    "Command=/tmp/slc/job a=b.sh Reason=None x WorkDir=/tmp/slc "
    "Comment=NodeList=x JobState=FAILED odd  StdErr=/tmp/slc/slurm-7.out StdIn=/dev/null "
    "StdOut=/tmp/slc/slurm-7.out Power= \n";

// The middle of a record with the fields in question.
std::string Record(std::string_view job, std::string_view state_part, std::string_view nodes_part) {
  return Concat("JobId=", job,
                " JobName=x UserId=u(1) GroupId=g(1) MCS_label=N/A Priority=1 Nice=0 ",
                "Account=(null) QOS=(null) ", state_part,
                " TimeLimit=UNLIMITED TimeMin=N/A StartTime=Unknown EndTime=Unknown Partition=p ",
                nodes_part, " NumCPUs=1 Command=(null) WorkDir=/tmp StdErr=/tmp/x StdIn=/dev/null ",
                "StdOut=/tmp/x Power= \n");
}

TEST(JobRecordTest, RunningJob) {
  const JobInfo job = ParseJobRecords(kRunning, {.id = 7}).value();
  EXPECT_EQ(job.state, JobState::kRunning);
  EXPECT_EQ(job.reason, "None");
  EXPECT_EQ(job.restart_count, 0U);
  EXPECT_TRUE(job.requeue);
  EXPECT_EQ(job.batch_host, "n1");
  EXPECT_THAT(job.nodes, ElementsAre("n1", "n2"));
  EXPECT_THAT(job.excluded_nodes, IsEmpty());
  EXPECT_EQ(job.node_count, 2);
  EXPECT_EQ(job.partition, "p");
  EXPECT_EQ(job.time_limit, minutes(10));
  ASSERT_TRUE(job.end_time.has_value() && job.start_time.has_value());
  EXPECT_EQ(*job.end_time - *job.start_time, minutes(10));
  EXPECT_EQ(job.end_time->time_since_epoch(), seconds(1796080377));
  EXPECT_EQ(job.comment, "NodeList=x JobState=FAILED odd");
}

TEST(JobRecordTest, AJobsNameIsNotTakenForItsState) {
  std::string text(kRunning);
  const std::string name = "JobName=job a=b.sh";
  text.replace(text.find(name), name.size(),
               "JobName=x JobState=CANCELLED Restarts=9 NodeList=z9 Requeue=0");
  const JobInfo job = ParseJobRecords(text, {.id = 7}).value();
  EXPECT_EQ(job.state, JobState::kRunning);
  EXPECT_EQ(job.restart_count, 0U);
  EXPECT_THAT(job.nodes, ElementsAre("n1", "n2"));
}

TEST(JobRecordTest, CompletingAfterARequeueAndPending) {
  const JobInfo completing =
      ParseJobRecords(Record("7",
                             "JobState=COMPLETING Reason=None Dependency=(null) Requeue=1 "
                             "Restarts=1 BatchFlag=1 Reboot=0 ExitCode=0:0",
                             "ReqNodeList=(null) ExcNodeList=(null) NodeList=n1 BatchHost=n1 "
                             "NumNodes=1"),
                      {.id = 7})
          .value();
  EXPECT_EQ(completing.state, JobState::kCompleting);
  EXPECT_EQ(completing.restart_count, 1U);
  const JobInfo pending =
      ParseJobRecords(Record("7",
                             "JobState=PENDING Reason=BeginTime Dependency=(null) Requeue=1 "
                             "Restarts=1 BatchFlag=1 Reboot=0 ExitCode=0:0",
                             "ReqNodeList=(null) ExcNodeList=n[2-3] NodeList= NumNodes=2-4"),
                      {.id = 7})
          .value();
  EXPECT_EQ(pending.state, JobState::kPending);
  EXPECT_EQ(pending.reason, "BeginTime");
  EXPECT_THAT(pending.excluded_nodes, ElementsAre("n2", "n3"));
  EXPECT_THAT(pending.nodes, IsEmpty());
  EXPECT_EQ(pending.batch_host, "");
  EXPECT_EQ(pending.node_count, 2);
  EXPECT_FALSE(pending.time_limit.has_value());
  EXPECT_FALSE(pending.end_time.has_value());
}

TEST(JobRecordTest, AReasonWithBlanksAndTheExitOfAKilledScript) {
  const JobInfo job =
      ParseJobRecords(
          Record("16",
                 "JobState=COMPLETING Reason=ReqNodeNotAvail, UnavailableNodes:n[1-2] "
                 "FailedNode=n3 Dependency=(null) Requeue=1 Restarts=0 BatchFlag=1 ExitCode=0:9",
                 "NodeList=(null) NumNodes=1"),
          {.id = 16})
          .value();
  EXPECT_THAT(job.reason, HasSubstr("ReqNodeNotAvail, UnavailableNodes:n[1-2]"));
  EXPECT_EQ(job.exit_code, 0);
  EXPECT_EQ(job.exit_signal, 9);
}

TEST(JobRecordTest, TheTaskOfAnArrayIsChosenAmongItsRecords) {
  // As `scontrol show job 1` prints: the last task carries the array's own number.
  const std::string state = "JobState=RUNNING Reason=None Requeue=0 Restarts=";
  const std::string output =
      Record("1 ArrayJobId=1 ArrayTaskId=2", state + "5", "NodeList=n1 BatchHost=n1 NumNodes=1") +
      Record("5 ArrayJobId=1 ArrayTaskId=1", state + "6", "NodeList=n2 BatchHost=n2 NumNodes=1") +
      Record("9 ArrayJobId=1 ArrayTaskId=3,5-9%2", state + "7", "NodeList= NumNodes=1") +
      Record("8 ArrayJobId=1 ArrayTaskId=10-20:5", state + "8", "NodeList= NumNodes=1");
  const auto restarts = [&](std::uint32_t task) {
    const auto job = ParseJobRecords(output, {.id = 99, .array_job = 1, .array_task = task});
    return job.ok() ? static_cast<int>(job->restart_count) : -1;
  };
  EXPECT_EQ(restarts(1), 6);
  EXPECT_EQ(restarts(2), 5);
  EXPECT_EQ(restarts(3), 7);
  EXPECT_EQ(restarts(4), -1);
  EXPECT_EQ(restarts(7), 7);
  EXPECT_EQ(restarts(15), 8);
  EXPECT_EQ(restarts(16), -1);
  EXPECT_EQ(ParseJobRecords(output, {.id = 5})->restart_count, 6U);
}

TEST(JobRecordTest, DamagedOrMissingRecords) {
  EXPECT_EQ(ParseJobRecords("", {.id = 7}).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(ParseJobRecords(kRunning, {.id = 8}).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(ParseJobRecords("No jobs in the system\n", {.id = 8}).status().code(),
            StatusCode::kDataLoss);
  // Without these a decision would be a guess.
  for (const std::string_view key : {"JobState=", "Restarts="}) {
    std::string text(kRunning);
    text.replace(text.find(key), key.size(), "Other=");
    EXPECT_EQ(ParseJobRecords(text, {.id = 7}).status().code(), StatusCode::kDataLoss) << key;
  }
  for (std::size_t length = 0; length < kRunning.size(); ++length) {
    (void)ParseJobRecords(kRunning.substr(0, length), {.id = 7});
  }
}

TEST(JobStateTest, Words) {
  EXPECT_EQ(ParseJobState("RUNNING"), JobState::kRunning);
  EXPECT_EQ(ParseJobState("running"), JobState::kRunning);
  EXPECT_EQ(ParseJobState("CANCELLED by 1000"), JobState::kCancelled);
  EXPECT_EQ(ParseJobState("RUNNING,COMPLETING"), JobState::kCompleting);
  EXPECT_EQ(ParseJobState("NODE_FAIL"), JobState::kNodeFail);
  EXPECT_EQ(ParseJobState("OUT_OF_MEMORY"), JobState::kOutOfMemory);
  EXPECT_EQ(ParseJobState("REQUEUE_HOLD"), JobState::kRequeueHold);
  EXPECT_EQ(ParseJobState("EXPEDITING"), JobState::kUnknown);
  EXPECT_EQ(ParseJobState(""), JobState::kUnknown);
  EXPECT_FALSE(IsEnded(JobState::kUnknown));
  EXPECT_FALSE(IsEnded(JobState::kCompleting));
  EXPECT_TRUE(IsEnded(JobState::kPreempted));
}

TEST(NodeTest, RecordedRecords) {
  const std::string output =
      "NodeName=n1 Arch=x86_64 CoresPerSocket=1  CPUAlloc=0 CPUEfctv=8 CPUTot=8 CPULoad=3.94 "
      "AvailableFeatures=(null) ActiveFeatures=(null) Gres=(null) NodeAddr=127.0.0.1 "
      "NodeHostName=n1 Port=26821 Version=22.05.8 OS=Linux 6.1 #1 SMP PREEMPT_DYNAMIC @0  "
      "RealMemory=1 AllocMem=0 FreeMem=22292 Sockets=8 Boards=1 State=IDLE+DRAIN "
      "ThreadsPerCore=1 TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A Partitions=p  "
      "BootTime=2026-11-30T22:47:06 CfgTRES=cpu=8,mem=1M,billing=8 AllocTRES= CapWatts=n/a "
      "Reason=bad fan x=y [z] [root@2026-11-30T23:10:21]\n"
      "NodeName=n2 Arch=x86_64 CoresPerSocket=1  CPUAlloc=0 OS=Linux 6.1 #1 SMP @0  "
      "RealMemory=1 State=DOWN+NOT_RESPONDING ThreadsPerCore=1 Partitions=p  "
      "Reason=Not responding [root@2026-11-30T23:11:02]\n"
      "NodeName=n3 CPUAlloc=2 State=MIXED ThreadsPerCore=1 Partitions=p  Comment=State=DOWN\n";
  const std::vector<NodeInfo> nodes = ParseNodeRecords(output).value();
  ASSERT_EQ(nodes.size(), 3U);
  EXPECT_EQ(nodes[0].name, "n1");
  EXPECT_TRUE(nodes[0].draining);
  EXPECT_FALSE(nodes[0].down);
  EXPECT_FALSE(nodes[0].usable);
  EXPECT_EQ(nodes[0].reason, "bad fan x=y [z] [root@2026-11-30T23:10:21]");
  EXPECT_TRUE(nodes[1].down);
  EXPECT_FALSE(nodes[1].usable);
  EXPECT_TRUE(nodes[2].usable);
  EXPECT_EQ(ParseNodeRecords("Node nope not found\n").status().code(), StatusCode::kDataLoss);
  EXPECT_TRUE(ParseNodeRecords("").value().empty());
}

TEST(NodeTest, LinesOfSinfo) {
  const std::vector<NodeInfo> nodes =
      ParseNodeLines(
          "n1|drained|bad fan x=y|z\nn2|down*|Not responding\nn2|down*|Not responding\n"
          "n3|idle|none\n")
          .value();
  ASSERT_EQ(nodes.size(), 3U);
  EXPECT_EQ(nodes[0].reason, "bad fan x=y|z");
  EXPECT_TRUE(nodes[1].down);
  EXPECT_EQ(nodes[1].state, "DOWN+NOT_RESPONDING");
  EXPECT_TRUE(nodes[2].usable);
  EXPECT_EQ(nodes[2].reason, "");
  EXPECT_FALSE(ParseNodeLines("sinfo: broken\n").ok());
}

TEST(NodeTest, Usable) {
  for (const char* state :
       {"IDLE", "ALLOCATED", "MIXED", "idle", "mixed", "allocated", "mixed-", "IDLE+PLANNED",
        "ALLOCATED+COMPLETING", "completing", "IDLE+DYNAMIC_NORM"}) {
    EXPECT_TRUE(MakeNodeInfo("n", state).usable) << state;
  }
  for (const char* state : {"DOWN",
                            "down*",
                            "IDLE*",
                            "idle*",
                            "IDLE+DRAIN",
                            "drained",
                            "draining",
                            "MIXED+DRAIN",
                            "IDLE+POWERED_DOWN",
                            "idle~",
                            "idle#",
                            "idle%",
                            "IDLE+NOT_RESPONDING",
                            "allocated*",
                            "IDLE+FAIL",
                            "failing",
                            "IDLE+REBOOT_ISSUED",
                            "idle@",
                            "maint",
                            "idle$",
                            "unknown",
                            "future",
                            "IDLE+INVALID_REG",
                            "inval",
                            "ERROR",
                            ""}) {
    EXPECT_FALSE(MakeNodeInfo("n", state).usable) << state;
  }
}

TEST(TimeTest, TimesAndLimits) {
  EXPECT_EQ(ParseSlurmTime("1970-01-01T00:00:00").value().time_since_epoch(), seconds(0));
  EXPECT_EQ(ParseSlurmTime("2026-11-30T23:12:57").value().time_since_epoch(), seconds(1796080377));
  for (const char* text : {"Unknown", "", "2026-02-30T00:00:00", "2026-11-30 23:12:57",
                           "2026-11-30T24:00:00", "2026-1--30T23:12:57", "2026-11-30T23:12:5-"}) {
    EXPECT_FALSE(ParseSlurmTime(text).ok()) << text;
  }
  EXPECT_EQ(ParseTimeLimit("00:10:00").value(), minutes(10));
  EXPECT_EQ(ParseTimeLimit("1-02:03:04").value(), seconds(93784));
  EXPECT_EQ(ParseTimeLimit("UNLIMITED").value(), std::nullopt);
  EXPECT_FALSE(ParseTimeLimit("10").ok());
  EXPECT_FALSE(ParseTimeLimit("a:b:c").ok());
}

TEST(ToolErrorTest, SentencesOfSlurm) {
  struct Case {
    const char* text;
    StatusCode code;
  };
  for (const Case& c :
       {Case{"slurm_load_jobs error: Invalid job id specified", StatusCode::kNotFound},
        Case{"Invalid job id specified for job 77", StatusCode::kNotFound},
        Case{"Job 2_1 not found", StatusCode::kNotFound},
        Case{"Node nope not found", StatusCode::kNotFound},
        Case{"Job update not available right now, the DB index is being set, try again in a bit "
             "for job 1_1",
             StatusCode::kUnavailable},
        Case{"slurm_load_jobs error: Unable to contact slurm controller (connect failure)",
             StatusCode::kUnavailable},
        Case{"slurm_load_jobs error: Socket timed out on send/recv operation",
             StatusCode::kDeadlineExceeded},
        Case{"1_1-2: Requested operation is presently disabled", StatusCode::kFailedPrecondition},
        Case{"1_1-2: Job is no longer pending execution", StatusCode::kFailedPrecondition},
        Case{"scontrol: error: Job resizing not supported for job arrays",
             StatusCode::kFailedPrecondition},
        Case{"Access/permission denied for job 12", StatusCode::kPermissionDenied},
        Case{"Invalid node name specified for job 7", StatusCode::kInvalidArgument},
        Case{"sbatch: error: Batch job submission failed: Job violates accounting/QOS policy (job "
             "submit limit, user's size and/or time limits)",
             StatusCode::kResourceExhausted},
        Case{"sbatch: error: Batch job submission failed: Requested node configuration is not "
             "available",
             StatusCode::kInvalidArgument},
        Case{"something new", StatusCode::kUnknown}, Case{"", StatusCode::kUnknown}}) {
    const Status status = StatusFromTool("scontrol", 1, c.text);
    EXPECT_EQ(status.code(), c.code) << c.text;
    EXPECT_THAT(status.message(), HasSubstr("scontrol ended with 1"));
    EXPECT_THAT(status.message(), HasSubstr(c.text));
  }
}

// Bytes of real records, shuffled, cut and spoilt: never a crash, never a wild read.
TEST(ParserTest, RandomBytesNeverCrash) {
  Random random(41);
  for (int round = 0; round < 3000; ++round) {
    std::string text(kRunning.substr(random.Below(200)));
    for (std::uint64_t n = random.Below(20); n > 0 && !text.empty(); --n) {
      const std::size_t at = random.Below(text.size());
      switch (random.Below(4)) {
        case 0:
          text[at] = static_cast<char>(random.Below(256));
          break;
        case 1:
          text.erase(at, random.Below(30));
          break;
        case 2:
          text.insert(at, text.substr(random.Below(text.size()), random.Below(60)));
          break;
        default:
          text[at] = "= \n[]-,:|+*"[random.Below(11)];
          break;
      }
    }
    (void)ParseJobRecords(text, {.id = 7});
    (void)ParseJobRecords(text, {.id = 7, .array_job = 7, .array_task = 1});
    (void)ParseNodeRecords(text);
    (void)ParseNodeLines(text);
    (void)ParseSlurmTime(text.substr(0, 19));
    (void)ParseTimeLimit(text.substr(0, 12));
    (void)StatusFromTool("scontrol", 1, text);
  }
}

}  // namespace
}  // namespace muster::slurm
