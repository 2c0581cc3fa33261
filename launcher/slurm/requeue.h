#pragma once

// The requeue recipe: one function that gives a running job back to Slurm so that it starts again
// elsewhere, soon. The order of its steps was measured on a real cluster; each is read back, since
// a call that failed may have taken effect and an accepted one may have done nothing.
//
//   1. Read the job: ours, in this attempt, on this batch host; else do nothing and say so.
//   2. Drop the dead nodes from it, never the batch host: it then need not wait, COMPLETING, for
//      Slurm to call them DOWN. A refusal costs time, not the requeue.
//   3. Requeue, in the mode that leaves a cancelled job cancelled.
//   4. At once: exclude the suspects and set the start time, again until it holds.
//
// Array tasks are named J_T throughout. Idempotent: a job that already has a higher restart count
// is never requeued again; steps 2 and 4 repeat harmlessly.
//
// The caller has ended all workers and its own srun before, and ignores SIGTERM from before step 3:
// Slurm signals every process of the job there, and one that dies between 3 and 4 leaves the job
// without exclusion for two minutes. A wish of Slurm's own limits (requeues left, StartTime
// allowed) has been checked by the caller too.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"
#include "common/time.h"
#include "launcher/slurm/scheduler.h"

namespace muster::slurm {

struct RequeueRequest {
  JobId job;
  std::uint32_t restart_count = 0;    // our own attempt
  std::string batch_host;             // ours
  std::vector<std::string> dead;      // to be dropped and excluded
  std::vector<std::string> suspects;  // to be excluded, the worst first
  // The user's own --exclude, as it was at the first attempt: later the job's list holds ours too.
  // Absent: what the job has now.
  std::optional<std::vector<std::string>> user_excluded;
  int wanted_nodes = 1;  // that the job was submitted with
  int min_nodes = 1;     // that the run can go on with
  // No process of the job is left but the caller's: COMPLETING is short.
  bool clean_end = false;
  Duration kill_wait = std::chrono::seconds(30);  // Slurm's KillWait
  // The caller is an heir: the host is dead, so the job may be COMPLETING with a failed script. It
  // is requeued then only if Slurm's reason and exit code say that it was not cancelled.
  bool as_heir = false;
  // The user said --no-requeue, and muster's own option overrides it.
  bool may_set_requeue_flag = false;
  // The site allows StartTime to shorten Slurm's own delay. Otherwise only the exclusion is set.
  bool may_set_start_time = true;
};

// Time and words from outside, so that tests run in virtual time.
struct RequeueTools {
  Scheduler* scheduler = nullptr;
  std::function<TimePoint()> now;
  std::function<void(Duration)> sleep;
  std::function<void(std::string_view)> say;  // one finished sentence
};

enum class RequeueOutcome {
  kRequeued,   // the job will start again
  kNotOurs,    // another attempt, host or state: nothing was done
  kCancelled,  // it was cancelled or ended before or meanwhile, and was left so
};

struct RequeueReport {
  RequeueOutcome outcome = RequeueOutcome::kNotOurs;
  std::string text;       // one sentence for people
  bool dropped = false;   // the dead nodes are out of the job
  bool excluded = false;  // step 4 holds
  std::vector<std::string> excluded_nodes;
  std::optional<int> node_count;  // lowered to this
  std::optional<Duration> start_in;
};

// An error if the job is ours but could not be requeued within the limits.
Result<RequeueReport> RequeueJob(const RequeueRequest& request, const RequeueTools& tools);

// --- its parts, pure, for plan and tests
// ----------------------------------------------------------

// How long after the request the job may start: longer than the rest of COMPLETING, since a start
// time that has passed by then becomes two minutes more.
Duration StartDelay(const RequeueRequest& request);

struct Exclusion {
  std::vector<std::string> nodes;
  std::optional<int> node_count;
  std::string note;  // why fewer than all are excluded, or ""
};
// `partition` are all nodes of the job's partition; `keep_away` the dead and suspects, the worst
// first; `user` the user's own list, which is always kept.
Exclusion ChooseExclusion(const std::vector<NodeInfo>& partition,
                          const std::vector<std::string>& user,
                          const std::vector<std::string>& keep_away, int wanted_nodes,
                          int min_nodes);

}  // namespace muster::slurm
