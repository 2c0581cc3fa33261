#include "launcher/slurm/requeue.h"

#include <algorithm>
#include <set>

#include "common/host_list.h"
#include "common/text.h"

namespace muster::slurm {
namespace {

// A hung slurmdbd holds each call for 10 s, and a controller under load its MessageTimeout of 10 s.
constexpr Duration kCallDeadline = std::chrono::seconds(15);
// The refusal after a shrink without slurmdbd passes in 5 s, a hang of slurmdbd after minutes.
constexpr Duration kDropLimit = std::chrono::seconds(30);
// A controller that restarts on a large site needs minutes; beyond that the allocation's end is
// near.
constexpr Duration kRequeueLimit = std::chrono::minutes(5);
// After Slurm's own delay of two minutes the job may run again, and nothing can be set any more.
constexpr Duration kUpdateLimit = std::chrono::seconds(150);
// Between tries: two at once help nobody, and the start time runs.
constexpr Duration kFirstPause = std::chrono::milliseconds(250);
constexpr Duration kLongestPause = std::chrono::seconds(5);

// What the last reading means for us.
enum class Standing {
  kOurs,        // running in our attempt
  kCompleting,  // ending in our attempt: the script failed, or somebody cancelled it
  kRequeued,    // waits for the next attempt, or runs in it
  kEnded,       // cancelled or ended for good
  kOther,       // another batch host, or a state in which nothing may be done
};

bool Transient(const Status& status) {
  return status.code() == StatusCode::kUnavailable ||
         status.code() == StatusCode::kDeadlineExceeded || status.code() == StatusCode::kUnknown;
}

bool SameNodes(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  return std::set<std::string>(a.begin(), a.end()) == std::set<std::string>(b.begin(), b.end());
}

// One execution of the recipe.
class Recipe {
 public:
  Recipe(const RequeueRequest& request, const RequeueTools& tools)
      : request_(request), tools_(tools), scheduler_(*tools.scheduler) {}

  Result<RequeueReport> Run() {
    MUSTER_ASSIGN_OR_RETURN(JobInfo info, Read(kRequeueLimit));
    if (!StartsOurs(info)) return report_;
    user_excluded_ = request_.user_excluded.value_or(info.excluded_nodes);
    partition_ = info.partition;
    MUSTER_RETURN_IF_ERROR(EnsureFlag(info));
    if (Classify(info) == Standing::kOurs) Drop(info);
    MUSTER_RETURN_IF_ERROR(Requeue());
    if (report_.outcome != RequeueOutcome::kRequeued) return report_;
    UpdatePending();
    return report_;
  }

 private:
  std::string Name() const { return Concat("job ", request_.job.Name()); }
  void Say(const std::string& text) {
    if (tools_.say) tools_.say(text);
  }

  // Waits before try number `tries` (from 0); false when the time is over.
  bool Pause(int tries, TimePoint end) {
    Duration pause = kFirstPause;
    for (int i = 0; i < tries && pause < kLongestPause; ++i) pause *= 2;
    pause = std::min(pause, kLongestPause);
    if (tools_.now() + pause >= end) return false;
    tools_.sleep(pause);
    return true;
  }

  Result<JobInfo> Read(Duration limit) {
    const TimePoint end = tools_.now() + limit;
    for (int tries = 0;; ++tries) {
      Result<JobInfo> info = scheduler_.ReadJob(request_.job, kCallDeadline);
      if (info.ok() || !Transient(info.status())) return info;
      if (tries == 0)
        Say(Concat(Name(), " cannot be read, trying for up to ", DescribeDuration(limit), ": ",
                   info.status().message()));
      if (!Pause(tries, end)) return info.status().With(Concat("requeue of ", Name()));
    }
  }

  Standing Classify(const JobInfo& info) const {
    if (info.restart_count > request_.restart_count) {
      return IsEnded(info.state) ? Standing::kEnded : Standing::kRequeued;
    }
    if (info.restart_count < request_.restart_count) return Standing::kOther;
    if (IsEnded(info.state)) return Standing::kEnded;
    if (info.state == JobState::kCompleting) return Standing::kCompleting;
    if (info.batch_host != request_.batch_host) return Standing::kOther;
    switch (info.state) {
      case JobState::kRunning:
      case JobState::kResizing:
      case JobState::kSignaling:
        return Standing::kOurs;
      case JobState::kUnknown:
      case JobState::kPending:
      case JobState::kConfiguring:
      case JobState::kSuspended:
      case JobState::kStopped:
      case JobState::kStageOut:
      case JobState::kCompleting:
      case JobState::kRequeued:
      case JobState::kRequeueHold:
      case JobState::kSpecialExit:
      case JobState::kCompleted:
      case JobState::kCancelled:
      case JobState::kFailed:
      case JobState::kTimeout:
      case JobState::kNodeFail:
      case JobState::kPreempted:
      case JobState::kBootFail:
      case JobState::kDeadline:
      case JobState::kOutOfMemory:
        return Standing::kOther;
    }
    return Standing::kOther;
  }

  // A COMPLETING job whose script failed by itself. For a cancelled one Slurm keeps reason None and
  // the script's TERM (seen on 22.05).
  bool ScriptFailed(const JobInfo& info) const {
    const bool reason = info.reason == "JobLaunchFailure" || info.reason == "NonZeroExitCode" ||
                        info.reason == "RaisedSignal";
    return reason && info.exit_signal != 15 && (info.exit_code != 0 || info.exit_signal != 0);
  }

  bool MayRequeue(const JobInfo& info) const {
    const Standing standing = Classify(info);
    return standing == Standing::kOurs ||
           (standing == Standing::kCompleting && request_.as_heir && ScriptFailed(info));
  }

  // False: nothing is to be done, and the report says why. Only before our own requeue.
  bool StartsOurs(const JobInfo& info) {
    if (MayRequeue(info)) return true;
    const std::string state =
        Concat(JobStateName(info.state), ", restart count ", info.restart_count, ", batch host ",
               info.batch_host.empty() ? "none" : info.batch_host);
    switch (Classify(info)) {
      case Standing::kEnded:
      case Standing::kCompleting:
        report_.outcome = RequeueOutcome::kCancelled;
        report_.text = Concat(Name(), " is ending or has ended (", state,
                              "): it was cancelled or is over, and is left so");
        break;
      case Standing::kRequeued:
      case Standing::kOther:
      case Standing::kOurs:
        report_.outcome = RequeueOutcome::kNotOurs;
        report_.text =
            Concat(Name(), " is not ours to requeue: it is ", state, "; we are restart count ",
                   request_.restart_count, " on batch host ", request_.batch_host);
        break;
    }
    return false;
  }

  Status EnsureFlag(const JobInfo& info) {
    if (info.requeue) return OkStatus();
    if (!request_.may_set_requeue_flag) {
      return FailedPrecondition(
          Concat(Name(),
                 " may not be requeued (submitted with --no-requeue, or the site's default): "
                 "submit it with --requeue"));
    }
    const TimePoint end = tools_.now() + kDropLimit;
    for (int tries = 0;; ++tries) {
      const Status status = scheduler_.AllowRequeue(request_.job, kCallDeadline);
      MUSTER_ASSIGN_OR_RETURN(const JobInfo now, Read(kRequeueLimit));
      if (now.requeue) return OkStatus();
      if ((!status.ok() && !Transient(status)) || !Pause(tries, end)) {
        return status.ok() ? FailedPrecondition(Concat(Name(), " keeps Requeue=0"))
                           : status.With("setting Requeue=1");
      }
    }
  }

  // Step 2. Never fatal: what stays in the job makes the requeue slow, not wrong.
  void Drop(JobInfo info) {
    const std::set<std::string> dead(request_.dead.begin(), request_.dead.end());
    const TimePoint end = tools_.now() + kDropLimit;
    for (int tries = 0;; ++tries) {
      std::vector<std::string> living;
      for (const std::string& node : info.nodes) {
        if (!dead.contains(node) || node == request_.batch_host) living.push_back(node);
      }
      if (living.size() == info.nodes.size()) {
        report_.dropped = tries > 0;
        if (tries > 0) Say(Concat("dropped the dead nodes from ", Name()));
        return;
      }
      const Status status = scheduler_.DropNodes(request_.job, living, kCallDeadline);
      Result<JobInfo> read = scheduler_.ReadJob(request_.job, kCallDeadline);
      if (read.ok()) {
        if (!MayRequeue(read.value())) return;  // step 3 finds out the same and says it
        info = std::move(read).value();
        if (status.ok()) continue;
      }
      if ((!status.ok() && !Transient(status)) || !Pause(tries, end)) {
        Say(Concat("the dead nodes stay in ", Name(), " (", status.message(),
                   "): it restarts only after Slurm has set them DOWN"));
        return;
      }
    }
  }

  // Step 3. On OK the report holds the outcome.
  Status Requeue() {
    const TimePoint end = tools_.now() + kRequeueLimit;
    Status last = OkStatus();
    for (int tries = 0;; ++tries) {
      MUSTER_ASSIGN_OR_RETURN(const JobInfo info, Read(kRequeueLimit));
      if (Classify(info) == Standing::kRequeued) {
        report_.outcome = RequeueOutcome::kRequeued;
        report_.text = Concat(Name(), " is requeued (restart count ", info.restart_count, ")");
        Say(report_.text);
        return OkStatus();
      }
      if (!MayRequeue(info)) {
        (void)StartsOurs(info);
        return OkStatus();
      }
      if (tries > 0 && !Pause(tries - 1, end)) {
        return DeadlineExceeded(
            Concat(Name(), " could not be requeued within ", DescribeDuration(kRequeueLimit), ": ",
                   last.ok() ? "Slurm accepted it without effect" : last.message()));
      }
      const RequeueMode mode = Classify(info) == Standing::kCompleting ? RequeueMode::kAlsoFailed
                                                                       : RequeueMode::kIncomplete;
      last = scheduler_.Requeue(request_.job, mode, kCallDeadline);
      if (last.ok() || Transient(last)) continue;
      // Refused for good, unless it was refused because it is done already.
      MUSTER_ASSIGN_OR_RETURN(const JobInfo after, Read(kRequeueLimit));
      if (Classify(after) == Standing::kOurs) return last.With(Concat("requeue of ", Name()));
    }
  }

  PendingUpdate MakeUpdate() {
    PendingUpdate update;
    std::vector<std::string> keep_away = request_.dead;
    keep_away.insert(keep_away.end(), request_.suspects.begin(), request_.suspects.end());
    Result<std::vector<NodeInfo>> nodes = scheduler_.ReadPartition(partition_, kCallDeadline);
    if (nodes.ok()) {
      const Exclusion chosen = ChooseExclusion(nodes.value(), user_excluded_, keep_away,
                                               request_.wanted_nodes, request_.min_nodes);
      update.excluded_nodes = chosen.nodes;
      update.node_count = chosen.node_count;
      if (!chosen.note.empty()) Say(chosen.note);
    } else {
      // Without the numbers an exclusion might leave too few nodes, and the job pending for ever.
      update.excluded_nodes = user_excluded_;
      Say(Concat("no suspects are excluded, since the nodes of partition ", partition_,
                 " cannot be read: ", nodes.status().message()));
    }
    return update;
  }

  bool Holds(const JobInfo& info, const PendingUpdate& update) const {
    return SameNodes(info.excluded_nodes, update.excluded_nodes) &&
           (!update.node_count.has_value() || info.node_count == *update.node_count);
  }

  // Step 4. The job is requeued already; failure leaves it to Slurm's delay and choice of nodes.
  void UpdatePending() {
    PendingUpdate update = MakeUpdate();
    if (request_.may_set_start_time) update.start_in = StartDelay(request_);
    const TimePoint end = tools_.now() + kUpdateLimit;
    Status status;
    bool accepted = false;
    for (int tries = 0;; ++tries) {
      const Status now = scheduler_.UpdatePending(request_.job, update, kCallDeadline);
      accepted = accepted || now.ok();
      status = now;
      const Result<JobInfo> info = scheduler_.ReadJob(request_.job, kCallDeadline);
      if (info.ok()) {
        if (IsEnded(info.value().state)) {
          report_.outcome = RequeueOutcome::kCancelled;
          report_.text = Concat(Name(), " was cancelled while it was requeued (",
                                JobStateName(info.value().state), ")");
          return;
        }
        // The exclusion may look right by itself, with no start time set: one call must have been
        // accepted, or have failed in a way that may have taken effect.
        if (Holds(info.value(), update) && (now.ok() || (accepted && Transient(now)))) {
          Accepted(update);
          return;
        }
        if (info.value().state == JobState::kRunning) {
          Say(Concat(Name(), " runs again already; its suspects were not excluded"));
          return;
        }
      }
      if (!now.ok() && !Transient(now) && now.code() != StatusCode::kFailedPrecondition) break;
      if (!Pause(tries, end)) break;
    }
    Say(Concat(Name(), " is requeued, but start time and exclusion could not be set (",
               status.ok() ? "accepted without effect" : status.message(),
               "): Slurm starts it in its own time"));
  }

  void Accepted(const PendingUpdate& update) {
    report_.excluded = true;
    report_.excluded_nodes = update.excluded_nodes;
    report_.node_count = update.node_count;
    if (update.start_in.has_value()) report_.start_in = update.start_in;
    report_.text += Concat(
        update.start_in.has_value() ? Concat(", may start in ", DescribeDuration(*update.start_in))
                                    : std::string(),
        update.excluded_nodes.empty()
            ? std::string()
            : Concat(", without ", CompressHostList(update.excluded_nodes)),
        update.node_count.has_value()
            ? Concat(", on ", *update.node_count, *update.node_count == 1 ? " node" : " nodes")
            : std::string());
    Say(report_.text);
  }

  const RequeueRequest& request_;
  const RequeueTools& tools_;
  Scheduler& scheduler_;
  RequeueReport report_;
  std::vector<std::string> user_excluded_;
  std::string partition_;
};

}  // namespace

Result<RequeueReport> RequeueJob(const RequeueRequest& request, const RequeueTools& tools) {
  MUSTER_CHECK(tools.scheduler != nullptr && tools.now && tools.sleep,
               "a requeue needs a scheduler and time");
  return Recipe(request, tools).Run();
}

}  // namespace muster::slurm
