#pragma once

// The scheduler as muster's host sees it: what it may ask of Slurm and in which words Slurm
// answers.
//
// Two bodies pass the same tests: the command-line tools (command_line_scheduler.h, always there)
// and a helper program that links libslurm. Every call has a deadline and returns a Status:
//   NotFound            Slurm does not know the job or node
//   FailedPrecondition  not in this state, or disabled for this job
//   Unavailable, DeadlineExceeded   the controller did not answer: *the call may have taken effect*
//   ResourceExhausted   a limit of the site
//   PermissionDenied, InvalidArgument   as they say
// A call that failed may have taken effect, and one that Slurm accepted may have done nothing
// (`requeue Incomplete` of a cancelled job returns 0): callers read the job back. Callers limit the
// rate. Implementations block the calling thread: never call them from an event loop's thread.

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"
#include "common/time.h"
#include "launcher/slurm/environment_map.h"
#include "launcher/slurm/job_id.h"

namespace muster::slurm {

// Wall-clock time, as Slurm's records have it.
using WallTime = std::chrono::sys_seconds;

enum class JobState {
  kUnknown,  // a word we do not know: never treated as running or as ended
  kPending,
  kConfiguring,  // nodes are booting
  kRunning,
  kSuspended,
  kStopped,
  kResizing,
  kSignaling,
  kStageOut,
  kCompleting,  // ending; the tools of 22.05 hide the state behind it
  kRequeued,    // between an attempt and PENDING
  kRequeueHold,
  kSpecialExit,
  // Ended:
  kCompleted,
  kCancelled,
  kFailed,
  kTimeout,
  kNodeFail,
  kPreempted,
  kBootFail,
  kDeadline,
  kOutOfMemory,
};
std::string_view JobStateName(JobState state);
bool IsEnded(JobState state);

struct JobInfo {
  JobId job;
  JobState state = JobState::kUnknown;
  std::string reason;  // "None", "BeginTime", "JobHeldUser", ...
  std::uint32_t restart_count = 0;
  bool requeue = false;    // Slurm may requeue it
  std::string batch_host;  // empty while pending
  std::vector<std::string> nodes;
  std::vector<std::string> excluded_nodes;  // ExcNodeList
  int node_count = 0;                       // while pending: the least number asked for
  std::string partition;                    // several, by commas, while pending
  std::optional<WallTime> start_time;       // begin time while pending
  std::optional<WallTime> end_time;         // absent without a limit
  std::optional<Duration> time_limit;       // absent: unlimited
  int exit_code = 0;                        // of the batch script
  int exit_signal = 0;
  std::string comment;
};

struct NodeInfo {
  std::string name;
  // As Slurm has it, upper case: "ALLOCATED", "DOWN+NOT_RESPONDING".
  std::string state;
  std::string reason;  // may be empty
  // A job may be started there, now or when its present one has ended.
  bool usable = false;
  bool down = false;      // Slurm has given it up
  bool draining = false;  // an administrator wants it free
};

enum class RequeueMode {
  // Never revives a cancelled or ended job; does nothing to one, silently.
  kIncomplete,
  // A job whose script failed while it still is COMPLETING too. It revives a cancelled one as well.
  kAlsoFailed,
};

// What may be changed while the job is pending.
struct PendingUpdate {
  std::vector<std::string> excluded_nodes;  // replaces the list there was, the user's own included
  std::optional<Duration> start_in;         // whole seconds; begin time = now + this
  std::optional<int> node_count;            // ask for fewer nodes
};

struct SubmitRequest {
  std::vector<std::string> arguments;  // sbatch's, without its name
  EnvironmentMap environment;
  std::string directory;  // empty: where we are
  std::string script;     // to its standard input; empty: none
};

class Scheduler {
 public:
  virtual ~Scheduler() = default;

  virtual Result<JobInfo> ReadJob(const JobId& job, Duration deadline) = 0;
  // Of the named nodes. A node that Slurm does not know is NotFound.
  virtual Result<std::vector<NodeInfo>> ReadNodes(const std::vector<std::string>& nodes,
                                                  Duration deadline) = 0;
  // All nodes of a partition (several by commas).
  virtual Result<std::vector<NodeInfo>> ReadPartition(const std::string& partition,
                                                      Duration deadline) = 0;
  // Takes every other node out of a running job. `living` holds the batch host.
  virtual Status DropNodes(const JobId& job, const std::vector<std::string>& living,
                           Duration deadline) = 0;
  // Sets the job's requeue flag: a job submitted with --no-requeue needs it first.
  virtual Status AllowRequeue(const JobId& job, Duration deadline) = 0;
  virtual Status Requeue(const JobId& job, RequeueMode mode, Duration deadline) = 0;
  virtual Status UpdatePending(const JobId& job, const PendingUpdate& update,
                               Duration deadline) = 0;
  virtual Status Cancel(const JobId& job, Duration deadline) = 0;
  virtual Status SetComment(const JobId& job, const std::string& comment, Duration deadline) = 0;
  // The new job's number (and ";cluster" behind it where Slurm names one).
  virtual Result<std::string> Submit(const SubmitRequest& request, Duration deadline) = 0;
  // When such a job would start, in Slurm's words (sbatch --test-only).
  virtual Result<std::string> EstimateStart(const SubmitRequest& request, Duration deadline) = 0;
  // The script of a batch job, as it was submitted.
  virtual Result<std::string> BatchScript(const JobId& job, Duration deadline) = 0;
};

}  // namespace muster::slurm
