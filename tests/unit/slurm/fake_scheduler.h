#pragma once

// One job on a cluster that behaves as Slurm 22.05 was seen to, in virtual time. For tests of all
// that uses the Scheduler interface.
//
// What it models: COMPLETING until processes and dead nodes are gone; the start time that has
// passed by then becomes now + 121 s; updates only while pending; "the DB index is being set" after
// a shrink; `requeue Incomplete` that returns OK and leaves a cancelled job alone, the plain one
// that revives it; calls that fail and took effect, or are accepted without; a controller that is
// silent.

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/time.h"
#include "launcher/slurm/scheduler.h"

namespace muster::slurm {

class FakeScheduler final : public Scheduler {
 public:
  // A running job on `nodes`, the first being the batch host; the partition has `spare_nodes` more.
  FakeScheduler(std::vector<std::string> nodes, const std::vector<std::string>& spare_nodes);

  // --- what a test sets ---
  Duration call_time = std::chrono::milliseconds(50);
  Duration completing_time = std::chrono::seconds(1);  // until all processes are gone
  Duration index_busy_time{};                          // after a shrink: 5 s without slurmdbd
  std::map<std::string, TimePoint> down_at;            // a dead node, and when Slurm says DOWN
  std::map<std::string, std::string> node_state;       // "IDLE+DRAIN"; usable if absent
  int fail_with_effect = 0;                            // so many changing calls from now on
  int fail_without_effect = 0;                         // the same
  int accept_without_effect = 0;
  TimePoint silent_until{};             // every call is Unavailable
  std::optional<TimePoint> cancel_at;   // scancel by somebody else
  std::optional<TimePoint> requeue_at;  // somebody else requeues
  bool resizing_allowed = true;
  bool partition_readable = true;

  // --- what it has seen ---
  std::vector<std::string> calls;  // "requeue 12", "update 12 exclude=n2 start=3s nodes=2"
  JobInfo& job() { return job_; }
  TimePoint now() const { return now_; }
  // To any time; what happens by then happens.
  void Advance(Duration duration);
  int Count(const std::string& call_begin) const;

  Result<JobInfo> ReadJob(const JobId& job, Duration deadline) override;
  Result<std::vector<NodeInfo>> ReadNodes(const std::vector<std::string>& nodes,
                                          Duration deadline) override;
  Result<std::vector<NodeInfo>> ReadPartition(const std::string& partition,
                                              Duration deadline) override;
  Status DropNodes(const JobId& job, const std::vector<std::string>& living,
                   Duration deadline) override;
  Status AllowRequeue(const JobId& job, Duration deadline) override;
  Status Requeue(const JobId& job, RequeueMode mode, Duration deadline) override;
  Status UpdatePending(const JobId& job, const PendingUpdate& update, Duration deadline) override;
  Status Cancel(const JobId& job, Duration deadline) override;
  Status SetComment(const JobId& job, const std::string& comment, Duration deadline) override;
  Result<std::string> Submit(const SubmitRequest& request, Duration deadline) override;
  Result<std::string> EstimateStart(const SubmitRequest& request, Duration deadline) override;
  Result<std::string> BatchScript(const JobId& job, Duration deadline) override;

  // The script ended by a signal or code of its own, its processes live on for completing_time.
  void FailScript(int exit_code, int exit_signal);

 private:
  // Time of the call; refuses while silent.
  Status Begin();
  // Applies the failure knobs around a change.
  template <typename Change>
  Status Mutate(Change change);
  void Settle();
  void BeginCompleting();
  void DoCancel();
  NodeInfo Node(const std::string& name) const;

  TimePoint now_{};
  JobInfo job_;
  std::vector<std::string> all_nodes_;
  int wanted_nodes_;
  bool cancelled_ = false;
  bool failed_ = false;
  bool requeued_ = false;  // COMPLETING leads to PENDING
  TimePoint completing_until_{};
  TimePoint index_busy_until_{};
  TimePoint begin_{};  // start time of the pending job
};

}  // namespace muster::slurm
