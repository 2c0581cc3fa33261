#include <signal.h>

#include <algorithm>

#include "common/check.h"
#include "common/text.h"
#include "launcher/agent/supervisor_state.h"
#include "proto/environment.h"

namespace muster::agent {

using protocol::OrderKind;

namespace {
// Beats that were never answered are forgotten beyond this many: minutes of silence.
constexpr std::size_t kBeatsKept = 256;
}  // namespace

// ---- timers -------------------------------------------------------------------------------------

std::optional<TimePoint> SupervisorMachine::State::NextDeadline() const {
  if (finished_) return std::nullopt;
  std::optional<TimePoint> next;
  const auto at_latest = [&next](TimePoint when) { next = next ? std::min(*next, when) : when; };
  if (link_) at_latest(next_beat_);
  for (const auto& [slot, worker] : workers_) {
    if (worker.ending != Ending::kNot) {
      at_latest(worker.ending_until);
    } else if (worker.alive) {
      if (worker.ending_told && !worker.quiesced) at_latest(worker.quiesce_until);
      if (worker.unheard) at_latest(worker.heard_until);
      if (worker.progress_unsent && link_) at_latest(worker.progress_next);
    }
  }
  if (const std::optional<TimePoint> freeze = FreezeAt()) at_latest(*freeze);
  if (!Closing()) {
    if (stop_at_) at_latest(*stop_at_);
    if (parent_gone_ && link_down_since_) at_latest(*link_down_since_ + config_.lost_limit);
    if (const std::optional<TimePoint> told = SilenceToldAt()) at_latest(*told);
    if (link_down_since_ && !link_was_up_) {
      at_latest(*link_down_since_ + config_.first_contact_limit);
    }
  }
  if (goodbye_until_) at_latest(*goodbye_until_);
  return next;
}

void SupervisorMachine::State::OnTimers(TimePoint now) {
  if (link_ && now >= next_beat_) {
    beats_[++beat_sequence_] = now;
    while (beats_.size() > kBeatsKept) beats_.erase(beats_.begin());
    SendOnce(protocol::Beat{beat_sequence_});
    next_beat_ = now + config_.beat;
  }
  for (auto& [slot, worker] : workers_) {
    const WorkerId id{slot, worker.serial};
    if (worker.ending != Ending::kNot && now >= worker.ending_until) {
      if (worker.ending == Ending::kKill) worker.stuck = true;
      worker.ending = Ending::kKill;
      worker.ending_until = now + config_.kill_limit;
      Emit(SignalTree{id, SIGKILL});
    }
    if (worker.ending != Ending::kNot || !worker.alive) continue;
    if (worker.ending_told && !worker.quiesced && now >= worker.quiesce_until) {
      Emit(Say{true, Concat("worker ", slot, " (pid ", worker.pid, ") did not leave ",
                            protocol::ToString(worker.fence), " within ",
                            DescribeDuration(config_.quiesce_limit), " and is ended")});
      End(slot, worker, now);
    } else if (worker.unheard && now >= worker.heard_until) {
      Emit(Say{true, Concat("worker ", slot, " (pid ", worker.pid, ") was asked into ",
                            protocol::ToString(worker.fence), " and said nothing for ",
                            DescribeDuration(config_.reform_limit), "; it is replaced")});
      End(slot, worker, now);
    } else if (worker.progress_unsent && link_ && now >= worker.progress_next) {
      SendProgress(slot, worker, now);
    }
  }
  if (Closing()) return;
  if (stop_at_ && now >= *stop_at_) stopping_ = true;
  WaitForLink(now);
  if (parent_gone_ && link_down_since_ && now >= *link_down_since_ + config_.lost_limit) {
    stopping_ = true;
    stop_code_ = 1;
    stop_reason_ = Concat("no daemon for ", DescribeDuration(config_.lost_limit),
                          " and who started this agent is gone");
  }
}

std::optional<TimePoint> SupervisorMachine::State::SilenceToldAt() const {
  if (!link_down_since_) return std::nullopt;
  return link_told_at_ ? *link_told_at_ + config_.silence_told_again
                       : *link_down_since_ + config_.silence_told_after;
}

void SupervisorMachine::State::WaitForLink(TimePoint now) {
  if (!link_down_since_ || stopping_) return;
  const Duration lasted = now - *link_down_since_;
  const std::string since =
      Concat("the daemon at ", config_.endpoint,
             link_was_up_ ? " has not been reached for " : " was never reached in ",
             DescribeDuration(lasted), " (", link_trouble_, ")");
  if (!link_was_up_ && lasted >= config_.first_contact_limit) {
    stopping_ = true;
    stop_code_ = exit_code::kCouldNotForm;
    stop_reason_ = Concat("agent ", protocol::ToString(config_.agent.key), " gives up: ", since,
                          "; let ", config_.agent.key.node,
                          " reach that address (a firewall between nodes of one job?)");
    return;
  }
  if (now < *SilenceToldAt()) return;
  link_told_at_ = now;
  Emit(Say{true, Concat(since, "; it tries again ",
                        link_was_up_
                            ? std::string("until it answers")
                            : Concat("for ", DescribeDuration(config_.first_contact_limit - lasted),
                                     " more"))});
}

// Cut off from the daemon, its ranks may soon live elsewhere too: they stop before the lease ends.
// Marks of progress show that their round still holds together.
std::optional<TimePoint> SupervisorMachine::State::FreezeAt() const {
  if (!order_ || order_->kind != OrderKind::kRun || !answered_at_ || Closing()) return std::nullopt;
  const bool any = std::any_of(workers_.begin(), workers_.end(), [this](const auto& entry) {
    const Worker& worker = entry.second;
    return worker.alive && !worker.frozen && worker.ending == Ending::kNot &&
           worker.fence == order_->fence;
  });
  if (!any) return std::nullopt;
  const Duration second = std::chrono::seconds(1);
  const Duration after =
      config_.lease > 2 * second ? config_.lease - second : config_.lease * 4 / 5;
  TimePoint since = *answered_at_;
  if (progress_at_) since = std::max(since, *progress_at_);
  return since + after;
}

void SupervisorMachine::State::FreezeIfCutOff(TimePoint now) {
  const std::optional<TimePoint> when = FreezeAt();
  if (!when || now < *when) return;
  for (auto& [slot, worker] : workers_) {
    if (!worker.alive || worker.frozen || worker.ending != Ending::kNot) continue;
    worker.frozen = true;
    Emit(SignalTree{{slot, worker.serial}, SIGSTOP});
  }
  Emit(Say{true,
           Concat("the daemon has answered no beat for ", DescribeDuration(now - *answered_at_),
                  " and no worker tells progress: ", "the workers of ",
                  protocol::ToString(order_->fence), " are stopped until it answers")});
}

// ---- from order to effects ----------------------------------------------------------------------

bool SupervisorMachine::State::Closing() const {
  return stopping_ || (order_ && order_->kind == OrderKind::kClose);
}

Duration SupervisorMachine::State::Grace() const {
  const bool given =
      order_ && order_->kind == OrderKind::kClose && order_->deadline > Duration::zero();
  return given ? order_->deadline : config_.stop_grace;
}

void SupervisorMachine::State::End(Slot slot, Worker& worker, TimePoint now) {
  if (!worker.present) return;
  const WorkerId id{slot, worker.serial};
  if (worker.ending == Ending::kNot) {
    worker.ending = worker.frozen ? Ending::kKill : Ending::kTerm;
    worker.ending_until = now + (worker.frozen ? config_.kill_limit : Grace());
    worker.unheard = false;
    Emit(SignalTree{id, worker.frozen ? SIGKILL : SIGTERM});
  } else if (worker.ending == Ending::kTerm) {
    worker.ending_until = std::min(worker.ending_until, now + Grace());
  }
}

bool SupervisorMachine::State::IsQuiet(const Worker& worker) const {
  return worker.alive && worker.can_reform && worker.quiesced && worker.ending == Ending::kNot;
}

void SupervisorMachine::State::QuietOrEnd(Slot slot, Worker& worker, TimePoint now) {
  if (!worker.present || IsQuiet(worker)) return;
  // Who has not registered yet, or was stopped because it may live elsewhere, cannot re-form.
  if (!worker.alive || !worker.can_reform || worker.frozen || worker.ending != Ending::kNot) {
    End(slot, worker, now);
    return;
  }
  if (worker.ending_told) return;
  worker.ending_told = true;
  worker.unheard = false;
  worker.quiesce_until = now + config_.quiesce_limit;
  Emit(SendRoundEnding{{slot, worker.serial}, worker.fence, CauseWord(*order_)});
}

void SupervisorMachine::State::PutInRound(Slot slot, TimePoint now) {
  Worker& worker = workers_[slot];
  const protocol::Fence& fence = order_->fence;
  if (worker.present && worker.fence == fence) return;  // there, exited in it, or being replaced
  if (worker.present) {
    if (!IsQuiet(worker)) {
      QuietOrEnd(slot, worker, now);
      return;
    }
    worker.fence = fence;
    worker.ending_told = false;
    worker.quiesced = false;
    worker.unheard = true;
    worker.heard_until = now + config_.reform_limit;
    worker.asked.clear();
    Emit(SendRound{{slot, worker.serial},
                   MakeRoundInfo(*order_, slot, config_.hello.address, config_.hello.run_id)});
    return;
  }
  if (worker.exited_in == fence) return;
  worker = Worker{};
  worker.serial = next_serial_++;
  worker.present = true;
  worker.alive = true;
  worker.fence = fence;
  Emit(StartWorker{{slot, worker.serial}, *order_});
}

void SupervisorMachine::State::Reconcile(TimePoint now) {
  if (Closing()) {
    for (auto& [slot, worker] : workers_) End(slot, worker, now);
  } else if (order_) {
    const bool run = order_->kind == OrderKind::kRun;
    const Slot wanted = order_->kind == OrderKind::kWait
                            ? std::numeric_limits<Slot>::max()
                            : std::min(order_->assignment.workers, config_.hello.slots);
    for (auto& [slot, worker] : workers_) {
      if (slot >= wanted) {
        End(slot, worker, now);
      } else if (!run) {
        QuietOrEnd(slot, worker, now);
      }
    }
    for (Slot slot = 0; run && slot < wanted; ++slot) PutInRound(slot, now);
  }
  ReconcilePort();
  SayReady();
  SayGoodbye(now);
}

// ---- the master port ----------------------------------------------------------------------------

bool SupervisorMachine::State::NeedsPort() const {
  if (!order_ || Closing()) return false;
  const bool named = order_->kind == OrderKind::kPrepare || order_->kind == OrderKind::kRun;
  return named && order_->assignment.first_rank == 0 && order_->assignment.workers > 0;
}

void SupervisorMachine::State::ReconcilePort() {
  const bool needed = NeedsPort();
  if (port_ != Port::kNone && (!needed || port_fence_ != order_->fence)) {
    port_ = Port::kNone;
    Emit(ReleasePort{});
  }
  if (!needed || port_ != Port::kNone || order_->kind != OrderKind::kPrepare) return;
  port_ = Port::kAsked;
  port_fence_ = order_->fence;
  Emit(BindPort{port_fence_});
}

// ---- ready and goodbye --------------------------------------------------------------------------

void SupervisorMachine::State::SayReady() {
  if (!order_ || order_->kind != OrderKind::kPrepare || Closing() || said_ == Said::kReady) return;
  protocol::Ready ready;
  ready.fence = order_->fence;
  bool waiting = false;
  for (const auto& [slot, worker] : workers_) {
    if (!worker.present) continue;
    if (IsQuiet(worker) && slot < order_->assignment.workers) {
      ready.workers.push_back(StatusOf(slot, worker));
    } else if (worker.stuck) {
      ready.problem = Concat("of the old worker ", slot, " on ", config_.agent.key.node,
                             " there is still process ",
                             worker.remains.empty() ? Concat(worker.pid) : worker.remains,
                             " after KILL; look at the node (a hung driver or file system holds "
                             "such processes)");
    } else {
      waiting = true;
    }
  }
  if (NeedsPort()) {
    if (port_ == Port::kAsked) waiting = true;
    if (port_ == Port::kFailed) ready.problem = port_problem_;
    if (port_ == Port::kBound) {
      ready.master_address = port_address_;
      ready.master_port = port_number_;
    }
  }
  if (ready.problem.empty() ? waiting : said_ == Said::kProblem) return;
  said_ = ready.problem.empty() ? Said::kReady : Said::kProblem;
  Keep(std::move(ready));
  ready_number_ = outbox_.last();
}

void SupervisorMachine::State::SayGoodbye(TimePoint now) {
  if (!Closing()) return;
  const bool gone = std::all_of(workers_.begin(), workers_.end(), [](const auto& entry) {
    return !entry.second.present || entry.second.stuck;
  });
  if (!gone) return;
  if (!sweep_asked_) {
    sweep_asked_ = true;
    Emit(Sweep{});
    return;
  }
  if (!swept_) return;
  const bool ordered = order_ && order_->kind == OrderKind::kClose;
  if (goodbye_number_ == 0 && !link_final_) {
    std::string reason = ordered ? std::string("closed") : stop_reason_;
    if (!left_over_.empty()) reason += Concat("; still there after KILL: ", left_over_);
    Keep(protocol::Goodbye{reason});
    goodbye_number_ = outbox_.last();
    goodbye_until_ = now + config_.goodbye_limit;
  }
  const bool heard = goodbye_number_ != 0 && !outbox_.Holds(goodbye_number_);
  if (!link_final_ && !heard && now < *goodbye_until_) return;
  finished_ = true;
  const int code = config_.end_with_verdict && ordered ? order_->verdict.exit_code : 0;
  Emit(Finish{ordered ? code : stop_code_, ordered ? std::string() : stop_reason_});
}

}  // namespace muster::agent
