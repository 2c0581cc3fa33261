#include <unistd.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "common/text.h"
#include "launcher/host/run.h"
#include "launcher/slurm/requeue.h"
#include "proto/environment.h"

namespace muster::host {
namespace {

// The daemon wishes it when all agents have said goodbye, so their srun ends at once, unless a lost
// node's task keeps it: then it must be ended, since a left-over srun kills the next attempt's
// step.
constexpr Duration kAgentsClose = std::chrono::seconds(1);
// After a refusal the daemon closes the run by itself, if it lives.
constexpr Duration kDaemonCloses = std::chrono::seconds(5);
// After a granted requeue Slurm ends the batch script within seconds. `muster run` must not return
// to the script before, else the script would go on with its next line.
constexpr Duration kSlurmEndsUs = std::chrono::seconds(60);
constexpr Duration kTick = std::chrono::milliseconds(100);

}  // namespace

void Run::StartRequeue(const protocol::Wish& wish, bool told) {
  std::string refusal;
  if (!scheduler_)
    refusal = "there is no Slurm job";
  else if (srun_way_)
    refusal = "srun --muster cannot requeue; use `muster run` in the script";
  else if (!launch_.plan.can_requeue)
    refusal = "this run may not requeue its job";
  else if (!facts_.can_requeue)
    refusal = "the job was submitted with --no-requeue";
  if (!refusal.empty()) return Answer(wish.id, protocol::WishState::kRefused, refusal);
  requeue_ = wish;
  requeue_told_ = told;
  LogInfo(Concat("the job will be requeued: ", wish.reason));
  if (!agents_ || agents_closed_) return DoRequeue();
  agents_->Close(told ? kAgentsClose : Duration::zero(),
                 told ? kAgentsClose : input_.options.stop_grace + kAgentsClose);
}

void Run::DoRequeue() {
  calls_->Do([this]() -> std::function<void()> {
    slurm::RequeueRequest request;
    request.job = input_.allocation.job;
    request.restart_count = input_.allocation.restart_count;
    request.batch_host = input_.allocation.node_name;
    request.dead = facts_.dead_nodes;
    request.suspects = requeue_->nodes;
    request.user_excluded = ReadUserExcluded(launch_.base, launch_.job);
    request.wanted_nodes = static_cast<int>(input_.allocation.nodes.size());
    request.min_nodes = static_cast<int>(launch_.plan.min_nodes);
    // After goodbyes nothing lives on the nodes, even if srun itself was stuck.
    request.clean_end = requeue_told_ || !agents_ || !agents_->killed();
    slurm::RequeueTools tools;
    tools.scheduler = scheduler_.get();
    tools.now = SteadyNow;
    tools.sleep = [](Duration duration) { std::this_thread::sleep_for(duration); };
    tools.say = [](std::string_view sentence) { LogInfo(sentence); };
    Result<slurm::RequeueReport> report = slurm::RequeueJob(request, tools);
    return [this, report = std::move(report)] {
      const protocol::Wish wish = *requeue_;
      if (report.ok() && report->outcome == slurm::RequeueOutcome::kRequeued) {
        requeued_ = true;
        LogInfo(report->text);
        Answer(wish.id, protocol::WishState::kDone, report->text);
        protocol::Verdict verdict = wish.verdict;
        verdict.outcome = protocol::Outcome::kGoesOnLater;
        verdict.exit_code = exit_code::kGoesOnLater;
        if (verdict.blame.text.empty()) verdict.blame.text = wish.reason;
        return Finish(verdict, Duration::zero());
      }
      OnRequeueFailed(report.ok() ? report->text : report.status().message(),
                      report.ok() && report->outcome == slurm::RequeueOutcome::kCancelled);
    };
  });
}

void Run::OnRequeueFailed(const std::string& reason, bool cancelled) {
  const protocol::Wish wish = *requeue_;
  requeue_.reset();
  LogError(Concat("the job could not be requeued: ", reason));
  Answer(wish.id, protocol::WishState::kRefused, reason);
  protocol::Verdict verdict{protocol::Outcome::kFailed, exit_code::kCouldNotForm,
                            wish.verdict.blame};
  verdict.blame.text = Concat(wish.reason, "; no requeue: ", reason);
  if (cancelled) {
    verdict.outcome = protocol::Outcome::kStopped;
    verdict.exit_code = exit_code::kStopped;
  }
  if (!connected_) return Finish(verdict, Duration::zero());
  loop_.After(kDaemonCloses, [this, verdict] { Finish(verdict, Duration::zero()); });
}

void Run::AwaitJobsEnd() {
  // The job stays COMPLETING while we live, so not a moment longer than needed.
  const TimePoint deadline = SteadyNow() + kSlurmEndsUs;
  const pid_t parent = getppid();
  while (!term_seen_ && getppid() == parent && SteadyNow() < deadline) {
    std::this_thread::sleep_for(kTick);
    DrainSignals();
  }
}

}  // namespace muster::host
