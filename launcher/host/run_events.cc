#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "common/text.h"
#include "launcher/host/run.h"
#include "launcher/host/signals.h"
#include "proto/environment.h"

namespace muster::host {
namespace {

// After a cancel the daemon has the workers' grace and this long to end the run in order.
constexpr Duration kCancelMargin = std::chrono::seconds(5);
// Views are cheap on one machine; people watch the beginning.
constexpr Duration kViewDeadline = std::chrono::seconds(2);
constexpr Duration kEarlyViews = std::chrono::seconds(20);
constexpr Duration kEarlyViewPause = std::chrono::milliseconds(250);
constexpr Duration kViewPause = std::chrono::seconds(1);
// One call a minute while all is well, ten a minute in trouble: what a controller with a thousand
// such jobs can bear.
constexpr Duration kSchedulerPause = std::chrono::seconds(60);
constexpr Duration kSchedulerPauseInTrouble = std::chrono::seconds(6);
constexpr Duration kSchedulerTick = std::chrono::seconds(1);
constexpr Duration kSchedulerDeadline = std::chrono::seconds(10);
// All agents have ended: the daemon has heard of it or never will.
constexpr Duration kSilentEnd = std::chrono::seconds(10);

}  // namespace

void Run::WatchSignals() {
  const sigset_t set = HostSignals();
  signals_ = agent::Descriptor(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  loop_.WatchReadable(signals_.get(), [this] { DrainSignals(); });
}

void Run::DrainSignals() {
  signalfd_siginfo info{};
  while (read(signals_.get(), &info, sizeof info) == sizeof info) {
    OnSignal(static_cast<int>(info.ssi_signo));
  }
}

void Run::OnSignal(int number) {
  if (number == SIGUSR1 || number == SIGUSR2) {
    // Slurm's notice to the batch step (--signal=B:USR1@60). Agents pass it on to the workers that
    // catch it.
    LogInfo(Concat("signal ", number, " (", strsignal(number), ") is passed on to the workers"));
    if (agents_) agents_->Signal(number);
    return;
  }
  if (number == SIGTERM) term_seen_ = true;
  if (requeue_) {
    // Slurm ends the requeued job's processes; the recipe must get to its end first.
    if (requeued_) LogDebug("Slurm ends this attempt");
    return;
  }
  ++interrupts_;
  if (interrupts_ == 1) {
    Cancel(number == SIGINT ? "interrupted from the keyboard"
                            : Concat("ended by signal ", number, " (", strsignal(number), ")"));
  } else if (interrupts_ == 2) {
    LogWarning("once more: agents are told to end at once");
    if (agents_) agents_->Signal(SIGTERM);
  } else {
    LogWarning("and once more: agents are killed");
    if (agents_) agents_->Signal(SIGKILL);
    Finish(MakeVerdict(protocol::Outcome::kStopped, exit_code::kStopped, protocol::Cause::kNone,
                       cancel_reason_),
           Duration::zero());
  }
}

void Run::Cancel(const std::string& reason) {
  cancel_reason_ = reason;
  if (finishing_) return;
  LogInfo(Concat(reason, "; workers get ", DescribeDuration(input_.options.stop_grace), " to end"));
  if (session_ && connected_) {
    session_->Send(protocol::OperatorRequest{protocol::OperatorAction::kCancel, reason});
  } else if (agents_) {
    agents_->Signal(SIGTERM);
  }
  loop_.After(input_.options.stop_grace + kCancelMargin, [this] {
    if (finishing_) return;
    LogWarning("the daemon has not ended the run in time; the agents are ended");
    Finish(MakeVerdict(protocol::Outcome::kStopped, exit_code::kStopped, protocol::Cause::kOperator,
                       cancel_reason_),
           Duration::zero());
  });
}

void Run::OnDaemonGivenUp(const std::string& reason) {
  // A requeue under way needs no daemon.
  if (finishing_ || requeue_) return;
  LogError(reason);
  protocol::Wish wish;
  wish.kind = protocol::WishKind::kRequeue;
  wish.reason = reason;
  wish.verdict = MakeVerdict(protocol::Outcome::kGoesOnLater, exit_code::kGoesOnLater,
                             protocol::Cause::kAgent, reason);
  if (launch_.plan.can_requeue && facts_.can_requeue && !requeue_) {
    return StartRequeue(wish, false);
  }
  Finish(MakeVerdict(protocol::Outcome::kFailed, exit_code::kCouldNotForm, protocol::Cause::kAgent,
                     reason),
         Duration::zero());
}

void Run::OnStepEnded(const StepProcess& process, const std::string& reason) {
  if (finishing_ || requeue_) return;
  const bool all = !agents_->AnyLeft();
  if (!process.node.empty() &&
      std::ranges::find(facts_.dead_nodes, process.node) == facts_.dead_nodes.end()) {
    facts_.dead_nodes.push_back(process.node);
  }
  if (all) {
    facts_.agents_step_ended = reason;
    loop_.After(kSilentEnd, [this, reason] {
      if (finishing_) return;
      Finish(
          MakeVerdict(protocol::Outcome::kFailed, exit_code::kCouldNotForm, protocol::Cause::kAgent,
                      Concat("all agents have ended, the last so: ", reason)),
          Duration::zero());
    });
  }
  SendFacts();
}

void Run::SendFacts() {
  if (!session_ || !connected_) return;
  session_->Send(facts_);
  for (const auto& [id, answer] : answers_) session_->Send(answer);
  if (!cancel_reason_.empty() && !finishing_) {
    session_->Send(protocol::OperatorRequest{protocol::OperatorAction::kCancel, cancel_reason_});
  }
}

void Run::Answer(std::uint64_t wish, protocol::WishState state, const std::string& reason) {
  answers_[wish] = {wish, state, reason};
  if (session_ && connected_) session_->Send(answers_[wish]);
}

void Run::OnWishes(std::vector<protocol::Wish> wishes) {
  for (const protocol::Wish& wish : wishes) {
    if (const auto known = answers_.find(wish.id); known != answers_.end()) {
      if (known->second.state != protocol::WishState::kPending) {
        Answer(wish.id, known->second.state, known->second.reason);
      }
      continue;
    }
    switch (wish.kind) {
      case protocol::WishKind::kFinish:
        Answer(wish.id, protocol::WishState::kDone, "");
        Finish(wish.verdict, input_.options.stop_grace);
        break;
      case protocol::WishKind::kDropNodes:
        DropNodes(wish);
        break;
      case protocol::WishKind::kStartAgent:
        StartNewAgents(wish);
        break;
      case protocol::WishKind::kRequeue:
        Answer(wish.id, protocol::WishState::kPending, "");
        StartRequeue(wish, true);
        break;
    }
  }
}

void Run::DropNodes(const protocol::Wish& wish) {
  if (!scheduler_ || srun_way_) {
    return Answer(wish.id, protocol::WishState::kDone, "there is no job to take nodes from");
  }
  Answer(wish.id, protocol::WishState::kPending, "");
  calls_->Do([this, wish]() -> std::function<void()> {
    const slurm::JobId job = input_.allocation.job;
    const auto drop = [&]() -> Status {
      MUSTER_ASSIGN_OR_RETURN(const slurm::JobInfo info,
                              scheduler_->ReadJob(job, kSchedulerDeadline));
      std::vector<std::string> living;
      for (const std::string& node : info.nodes) {
        if (std::ranges::find(wish.nodes, node) == wish.nodes.end()) living.push_back(node);
      }
      if (living.size() == info.nodes.size()) return OkStatus();  // done before
      if (std::ranges::find(living, info.batch_host) == living.end()) {
        return FailedPrecondition(
            Concat("Slurm does not let a job lose its batch host ", info.batch_host));
      }
      return scheduler_->DropNodes(job, living, kSchedulerDeadline);
    };
    const Status status = drop();
    return [this, id = wish.id, status, wish] {
      const std::string nodes = Join(wish.nodes, ",");
      if (status.ok()) {
        dropped_.insert(wish.nodes.begin(), wish.nodes.end());
        LogInfo(Concat("took ", nodes, " out of the job"));
        Answer(id, protocol::WishState::kDone, "");
      } else {
        LogWarning(Concat("could not take ", nodes, " out of the job: ", status.message()));
        Answer(id, protocol::WishState::kRefused, status.message());
      }
    };
  });
}

void Run::StartNewAgents(const protocol::Wish& wish) {
  if (launch_.plan.local) {
    return Answer(wish.id, protocol::WishState::kDone, "it starts again by itself");
  }
  if (srun_way_ || !agents_) {
    return Answer(wish.id, protocol::WishState::kRefused, "the agents are the tasks of an srun");
  }
  const std::string nodes = Join(wish.nodes, ",");
  Result<StepProcess> srun = SrunAgents(wish.nodes);
  Status status = srun.ok() ? agents_->Add(std::move(srun).value()) : srun.status();
  if (status.ok()) {
    LogInfo(Concat("starts a new agent on ", nodes, ": ", wish.reason));
    return Answer(wish.id, protocol::WishState::kDone, "");
  }
  LogWarning(Concat("could not start a new agent on ", nodes, ": ", status.message()));
  Answer(wish.id, protocol::WishState::kRefused, status.message());
}

void Run::PollView() {
  if (finishing_) return;
  const auto again = [this] {
    const bool early = SteadyNow() - started_ < kEarlyViews;
    loop_.After(early ? kEarlyViewPause : kViewPause, [this] { PollView(); });
  };
  if (!connected_) return again();
  views_->Do([this, again]() -> std::function<void()> {
    Result<protocol::RunView> view = client_->View(kViewDeadline);
    return [this, again, view = std::move(view)] {
      if (finishing_) return;
      if (view.ok()) {
        for (const std::string& line : watch_.Next(*view, SteadyNow())) LogInfo(line);
      }
      again();
    };
  });
}

void Run::PollScheduler() {
  if (finishing_) return;
  loop_.After(kSchedulerTick, [this] { PollScheduler(); });
  const TimePoint now = SteadyNow();
  const Duration pause = watch_.trouble() ? kSchedulerPauseInTrouble : kSchedulerPause;
  const bool first = scheduler_asked_ == TimePoint();
  if (scheduler_busy_ || (!first && now - scheduler_asked_ < pause)) return;
  scheduler_asked_ = now;
  scheduler_busy_ = true;
  calls_->Do([this, first]() -> std::function<void()> {
    // The job's own record once: whether Slurm may requeue it was the user's choice.
    bool requeue = true;
    Status status;
    if (first && launch_.plan.can_requeue) {
      const auto job = scheduler_->ReadJob(input_.allocation.job, kSchedulerDeadline);
      status = job.status();
      if (job.ok()) {
        requeue = job->requeue;
        if (job->restart_count == 0) {
          status = KeepUserExcluded(launch_.base, launch_.job, job->excluded_nodes);
        }
      }
    }
    std::vector<std::string> dead;
    if (!first || !launch_.plan.can_requeue) {
      const auto nodes = scheduler_->ReadNodes(launch_.plan.nodes, kSchedulerDeadline);
      status = nodes.status();
      if (nodes.ok()) {
        for (const slurm::NodeInfo& node : *nodes) {
          if (node.down) dead.push_back(node.name);
        }
      }
    }
    return [this, status, requeue, first, dead = std::move(dead)] {
      scheduler_busy_ = false;
      if (!status.ok()) {
        scheduler_trouble_.Say(
            LogLevel::kWarning,
            Concat("Slurm does not answer, training goes on: ", status.message()));
        return;
      }
      scheduler_trouble_.Clear();
      const bool could = facts_.can_requeue;
      if (first && launch_.plan.can_requeue) facts_.can_requeue = requeue;
      const bool changed = !first && dead != facts_.dead_nodes;
      if (!first) facts_.dead_nodes = dead;
      if (changed || could != facts_.can_requeue) SendFacts();
    };
  });
}

}  // namespace muster::host
