#include "fake_scheduler.h"

#include <algorithm>

#include "common/host_list.h"
#include "common/text.h"
#include "launcher/slurm/scontrol_output.h"

namespace muster::slurm {
namespace {

// cred_expire + 1: Slurm's own delay of a requeued job.
constexpr Duration kOwnDelay = std::chrono::seconds(121);

bool Contains(const std::vector<std::string>& list, const std::string& item) {
  return std::find(list.begin(), list.end(), item) != list.end();
}

}  // namespace

FakeScheduler::FakeScheduler(std::vector<std::string> nodes,
                             const std::vector<std::string>& spare_nodes)
    : all_nodes_(nodes), wanted_nodes_(static_cast<int>(nodes.size())) {
  all_nodes_.insert(all_nodes_.end(), spare_nodes.begin(), spare_nodes.end());
  job_.job.id = 12;
  job_.state = JobState::kRunning;
  job_.reason = "None";
  job_.requeue = true;
  job_.batch_host = nodes.front();
  job_.node_count = wanted_nodes_;
  job_.nodes = std::move(nodes);
  job_.partition = "p";
}

NodeInfo FakeScheduler::Node(const std::string& name) const {
  const auto down = down_at.find(name);
  if (down != down_at.end() && now_ >= down->second) {
    return MakeNodeInfo(name, "DOWN+NOT_RESPONDING");
  }
  const auto state = node_state.find(name);
  return MakeNodeInfo(name, state == node_state.end() ? "IDLE" : state->second);
}

void FakeScheduler::BeginCompleting() {
  job_.state = JobState::kCompleting;
  completing_until_ = now_ + completing_time;
  for (const std::string& node : job_.nodes) {
    const auto down = down_at.find(node);
    if (down != down_at.end()) completing_until_ = std::max(completing_until_, down->second);
  }
}

void FakeScheduler::DoCancel() {
  if (IsEnded(job_.state) || cancelled_) return;
  cancelled_ = true;
  if (job_.state == JobState::kRunning) {
    job_.exit_signal = 15;
    BeginCompleting();
  } else if (job_.state == JobState::kCompleting) {
    requeued_ = false;
  } else {
    job_.state = JobState::kCancelled;
  }
}

void FakeScheduler::FailScript(int exit_code, int exit_signal) {
  failed_ = true;
  job_.exit_code = exit_code;
  job_.exit_signal = exit_signal;
  job_.reason = exit_signal != 0 ? "JobLaunchFailure" : "NonZeroExitCode";
  BeginCompleting();
}

void FakeScheduler::Settle() {
  if (cancel_at.has_value() && now_ >= *cancel_at) {
    cancel_at.reset();
    DoCancel();
  }
  if (requeue_at.has_value() && now_ >= *requeue_at && job_.restart_count == 0) {
    requeue_at.reset();
    ++job_.restart_count;
    requeued_ = true;
    BeginCompleting();
  }
  if (job_.state == JobState::kCompleting && now_ >= completing_until_) {
    if (!requeued_) {
      job_.state =
          cancelled_ ? JobState::kCancelled : (failed_ ? JobState::kFailed : JobState::kCompleted);
      return;
    }
    job_.state = JobState::kPending;
    job_.reason = "BeginTime";
    job_.nodes.clear();
    job_.batch_host.clear();
    if (begin_ <= completing_until_) begin_ = completing_until_ + kOwnDelay;
  }
  if (job_.state == JobState::kPending && now_ >= begin_) {
    std::vector<std::string> usable;
    for (const std::string& node : all_nodes_) {
      if (Node(node).usable && !Contains(job_.excluded_nodes, node)) usable.push_back(node);
    }
    if (static_cast<int>(usable.size()) < wanted_nodes_) {
      job_.reason = "Resources";
      return;
    }
    usable.resize(static_cast<std::size_t>(wanted_nodes_));
    job_.nodes = usable;
    job_.batch_host = usable.front();
    job_.node_count = wanted_nodes_;
    job_.state = JobState::kRunning;
    job_.reason = "None";
  }
}

void FakeScheduler::Advance(Duration duration) {
  // In steps, so that what is due on the way happens in its order.
  const TimePoint end = now_ + duration;
  while (now_ < end) {
    now_ = std::min(end, now_ + std::chrono::milliseconds(50));
    Settle();
  }
}

Status FakeScheduler::Begin() {
  Advance(call_time);
  if (now_ < silent_until) return Unavailable("Unable to contact slurm controller");
  return OkStatus();
}

int FakeScheduler::Count(const std::string& call_begin) const {
  return static_cast<int>(std::count_if(calls.begin(), calls.end(), [&](const std::string& call) {
    return call.starts_with(call_begin);
  }));
}

template <typename Change>
Status FakeScheduler::Mutate(Change change) {
  if (fail_without_effect > 0) {
    --fail_without_effect;
    return DeadlineExceeded("Socket timed out on send/recv operation");
  }
  if (accept_without_effect > 0) {
    --accept_without_effect;
    return OkStatus();
  }
  const Status status = change();
  if (status.ok() && fail_with_effect > 0) {
    --fail_with_effect;
    return DeadlineExceeded("Socket timed out on send/recv operation");
  }
  return status;
}

Result<JobInfo> FakeScheduler::ReadJob(const JobId& job, Duration /*deadline*/) {
  MUSTER_RETURN_IF_ERROR(Begin());
  if (!(job == job_.job)) return NotFound("Invalid job id specified");
  return job_;
}

Result<std::vector<NodeInfo>> FakeScheduler::ReadNodes(const std::vector<std::string>& nodes,
                                                       Duration /*deadline*/) {
  MUSTER_RETURN_IF_ERROR(Begin());
  std::vector<NodeInfo> out;
  for (const std::string& node : nodes) {
    if (!Contains(all_nodes_, node)) return NotFound(Concat("Node ", node, " not found"));
    out.push_back(Node(node));
  }
  return out;
}

Result<std::vector<NodeInfo>> FakeScheduler::ReadPartition(const std::string& /*partition*/,
                                                           Duration deadline) {
  if (!partition_readable) return Unavailable("sinfo is broken");
  return ReadNodes(all_nodes_, deadline);
}

Status FakeScheduler::DropNodes(const JobId& job, const std::vector<std::string>& living,
                                Duration /*deadline*/) {
  calls.push_back(Concat("drop ", job.Name(), " to ", CompressHostList(living)));
  MUSTER_RETURN_IF_ERROR(Begin());
  if (!resizing_allowed) return FailedPrecondition("Job resizing not supported for job arrays");
  if (now_ < index_busy_until_) return Unavailable("the DB index is being set, try again in a bit");
  if (job_.state != JobState::kRunning) return FailedPrecondition("Job is not running");
  if (!Contains(living, job_.batch_host)) return InvalidArgument("Invalid node name specified");
  return Mutate([&] {
    job_.nodes = living;
    job_.node_count = static_cast<int>(living.size());
    index_busy_until_ = now_ + index_busy_time;
    return OkStatus();
  });
}

Status FakeScheduler::AllowRequeue(const JobId& job, Duration /*deadline*/) {
  calls.push_back(Concat("allow ", job.Name()));
  MUSTER_RETURN_IF_ERROR(Begin());
  return Mutate([&] {
    job_.requeue = true;
    return OkStatus();
  });
}

Status FakeScheduler::Requeue(const JobId& job, RequeueMode mode, Duration /*deadline*/) {
  calls.push_back(
      Concat(mode == RequeueMode::kIncomplete ? "requeue " : "requeue-also-failed ", job.Name()));
  MUSTER_RETURN_IF_ERROR(Begin());
  return Mutate([&]() -> Status {
    if (!job_.requeue) return FailedPrecondition("Requested operation is presently disabled");
    const bool over = IsEnded(job_.state) || cancelled_ || failed_;
    if (mode == RequeueMode::kIncomplete && (over || job_.state == JobState::kPending)) {
      return OkStatus();
    }
    if (job_.state == JobState::kPending) return FailedPrecondition("Job is pending execution");
    if (requeued_ && job_.state == JobState::kCompleting) return OkStatus();
    ++job_.restart_count;
    requeued_ = true;
    cancelled_ = false;
    begin_ = {};
    if (job_.state == JobState::kRunning) BeginCompleting();
    return OkStatus();
  });
}

Status FakeScheduler::UpdatePending(const JobId& job, const PendingUpdate& update,
                                    Duration /*deadline*/) {
  calls.push_back(Concat(
      "update ", job.Name(), " exclude=", CompressHostList(update.excluded_nodes),
      update.start_in.has_value() ? " start=" + FormatDuration(*update.start_in) : std::string(),
      update.node_count.has_value() ? Concat(" nodes=", *update.node_count) : std::string()));
  MUSTER_RETURN_IF_ERROR(Begin());
  if (now_ < index_busy_until_) return Unavailable("the DB index is being set, try again in a bit");
  return Mutate([&]() -> Status {
    const bool pending =
        job_.state == JobState::kPending || (requeued_ && job_.state == JobState::kCompleting);
    if (!pending) return FailedPrecondition("Job is no longer pending execution");
    job_.excluded_nodes = update.excluded_nodes;
    if (update.start_in.has_value()) begin_ = now_ + *update.start_in;
    if (update.node_count.has_value()) {
      wanted_nodes_ = *update.node_count;
      job_.node_count = wanted_nodes_;
    }
    return OkStatus();
  });
}

Status FakeScheduler::Cancel(const JobId& job, Duration /*deadline*/) {
  calls.push_back(Concat("cancel ", job.Name()));
  MUSTER_RETURN_IF_ERROR(Begin());
  return Mutate([&] {
    DoCancel();
    return OkStatus();
  });
}

Status FakeScheduler::SetComment(const JobId& job, const std::string& comment,
                                 Duration /*deadline*/) {
  calls.push_back(Concat("comment ", job.Name()));
  MUSTER_RETURN_IF_ERROR(Begin());
  return Mutate([&] {
    job_.comment = comment;
    return OkStatus();
  });
}

Result<std::string> FakeScheduler::Submit(const SubmitRequest& request, Duration /*deadline*/) {
  calls.push_back(Concat("submit ", Join(request.arguments, " ")));
  MUSTER_RETURN_IF_ERROR(Begin());
  return std::string("13");
}

Result<std::string> FakeScheduler::EstimateStart(const SubmitRequest& /*request*/,
                                                 Duration /*deadline*/) {
  MUSTER_RETURN_IF_ERROR(Begin());
  return std::string("start at 2026-11-30T23:31:20 using 8 processors on nodes n1");
}

Result<std::string> FakeScheduler::BatchScript(const JobId& /*job*/, Duration /*deadline*/) {
  MUSTER_RETURN_IF_ERROR(Begin());
  return std::string("#!/bin/sh\nexec muster run -- true\n");
}

}  // namespace muster::slurm
