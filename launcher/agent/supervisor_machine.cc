#include "launcher/agent/supervisor_machine.h"

#include <signal.h>

#include <algorithm>

#include "common/text.h"
#include "launcher/agent/supervisor_state.h"

namespace muster::agent {
namespace {

using protocol::Cause;
using protocol::Fence;
using protocol::Order;
using protocol::OrderKind;

// As a shell shows TERM: the agent was told to end from outside.
constexpr int kTerminated = 128 + SIGTERM;

bool Same(const protocol::Assignment& a, const protocol::Assignment& b) {
  return a.node_rank == b.node_rank && a.node_count == b.node_count &&
         a.first_rank == b.first_rank && a.workers == b.workers &&
         a.first_local_rank == b.first_local_rank && a.local_world_size == b.local_world_size &&
         a.world_size == b.world_size && a.previous_world_size == b.previous_world_size &&
         a.restart_count == b.restart_count && a.tasks_per_node == b.tasks_per_node;
}

}  // namespace

std::string CauseWord(const Order& order) {
  if (order.blame.cause != Cause::kNone) return std::string(protocol::ToString(order.blame.cause));
  return std::string(protocol::ToString(Cause::kInitial));
}

local::RoundInfo MakeRoundInfo(const Order& order, Slot slot, const std::string& own_address,
                               const std::string& run_id) {
  const protocol::Assignment& part = order.assignment;
  local::RoundInfo info;
  info.attempt = order.fence.attempt;
  info.round = order.fence.round;
  info.rank = part.first_rank + slot;
  info.world_size = part.world_size;
  info.local_rank = part.first_local_rank + slot;
  info.local_world_size = part.local_world_size;
  info.node_rank = part.node_rank;
  info.node_count = part.node_count;
  info.previous_world_size = part.previous_world_size;
  info.restart_count = part.restart_count;
  info.master_port = order.master_port;
  info.master_address = order.master_address;
  info.own_address = own_address;
  info.cause = CauseWord(order);
  info.run_id = run_id;
  return info;
}

SupervisorMachine::SupervisorMachine(MachineConfig config)
    : state_(std::make_unique<State>(std::move(config))) {}
SupervisorMachine::~SupervisorMachine() = default;
MachineEffects SupervisorMachine::Step(const MachineEvent& event, TimePoint now) {
  return state_->Step(event, now);
}
std::optional<TimePoint> SupervisorMachine::NextDeadline() const { return state_->NextDeadline(); }
std::optional<Fence> SupervisorMachine::FenceOf(const WorkerId& worker) const {
  return state_->FenceOf(worker);
}
std::optional<Order> SupervisorMachine::Running() const { return state_->Running(); }

SupervisorMachine::State::State(MachineConfig config)
    : config_(std::move(config)), outbox_(config_.agent) {}

MachineEffects SupervisorMachine::State::Step(const MachineEvent& event, TimePoint now) {
  effects_.clear();
  if (finished_) return {};
  std::visit([this, now](const auto& body) { On(body, now); }, event);
  OnTimers(now);
  Reconcile(now);
  FreezeIfCutOff(now);
  return std::move(effects_);
}

std::optional<Fence> SupervisorMachine::State::FenceOf(const WorkerId& id) const {
  const Worker* const worker = Find(id);
  if (worker == nullptr || !worker->alive || worker->ending != Ending::kNot) return std::nullopt;
  return worker->fence;
}

std::optional<Order> SupervisorMachine::State::Running() const {
  return order_ && order_->kind == OrderKind::kRun ? order_ : std::nullopt;
}

// ---- orders -------------------------------------------------------------------------------------

// A stream delivers in order; what comes late all the same must never end or revive a round.
bool SupervisorMachine::State::IsStale(const Order& order) const {
  if (order.fence.attempt < config_.attempt) return true;
  if (!order_) return false;
  if (order_->kind == OrderKind::kClose) return order.kind != OrderKind::kClose;
  const bool running = order_->kind == OrderKind::kRun;
  const bool named = running || order_->kind == OrderKind::kPrepare;
  switch (order.kind) {
    case OrderKind::kWait:
      return running && order.fence < order_->fence;
    case OrderKind::kPrepare:
      return order.fence <= ended_ || (running && order.fence <= order_->fence) ||
             (named && order.fence < order_->fence);
    case OrderKind::kRun:
      return order.fence <= ended_ || (named && order.fence < order_->fence);
    case OrderKind::kClose:
      return false;
  }
  return false;
}

void SupervisorMachine::State::On(const OrderReceived& event, TimePoint /*now*/) {
  const Order& order = event.order;
  // Whatever it says, it answers the hello of this stream, which counts as a beat.
  if (hello_at_) answered_at_ = answered_at_ ? std::max(*answered_at_, *hello_at_) : *hello_at_;
  if (IsStale(order)) return;
  if (order.kind == OrderKind::kWait) ended_ = std::max(ended_, order.fence);
  const bool repeated = order_ && order_->kind == order.kind && order_->fence == order.fence &&
                        Same(order_->assignment, order.assignment);
  if (order.kind == OrderKind::kPrepare) {
    // Asked again after the answer was journalled: say it again, a lost memory may be behind it.
    if (!repeated || !outbox_.Holds(ready_number_)) said_ = Said::kNothing;
  }
  if (order.kind == OrderKind::kRun && repeated) Thaw();
  order_ = order;
}

// ---- the link -----------------------------------------------------------------------------------

void SupervisorMachine::State::On(const AcknowledgeReceived& event, TimePoint /*now*/) {
  outbox_.Acknowledge(event.number);
}

void SupervisorMachine::State::On(const BeatAnswerReceived& event, TimePoint now) {
  const auto sent = beats_.find(event.answer.sequence);
  if (sent == beats_.end()) return;
  answered_at_ = answered_at_ ? std::max(*answered_at_, sent->second) : sent->second;
  beats_.erase(beats_.begin(), std::next(sent));
  if (!order_ || order_->kind != OrderKind::kRun) return;
  if (event.answer.fence == order_->fence) {
    Thaw();
    return;
  }
  if (event.answer.fence < order_->fence) return;
  for (auto& [slot, worker] : workers_) {
    if (worker.frozen) End(slot, worker, now);  // the world went on without them
  }
}

void SupervisorMachine::State::On(const LinkUp& /*event*/, TimePoint now) {
  if (link_told_at_) {
    Emit(Say{false, Concat("reached the daemon at ", config_.endpoint, " after ",
                           DescribeDuration(now - *link_down_since_))});
  }
  link_ = true;
  link_was_up_ = true;
  link_told_at_.reset();
  link_down_since_.reset();
  beats_.clear();
  hello_at_ = now;
  protocol::Hello hello = config_.hello;
  hello.fence = order_ ? order_->fence : Fence{config_.attempt, 0};
  hello.workers.clear();
  for (const auto& [slot, worker] : workers_) {
    if (worker.alive || worker.exited_in) hello.workers.push_back(StatusOf(slot, worker));
  }
  SendOnce(std::move(hello));
  for (const protocol::Upward& message : outbox_.kept()) Emit(SendUpward{message});
  for (auto& [slot, worker] : workers_) {
    if (worker.alive && worker.last_step >= 0) SendProgress(slot, worker, now);
  }
  next_beat_ = now;
}

void SupervisorMachine::State::On(const LinkDown& event, TimePoint now) {
  link_ = false;
  link_trouble_ = event.reason.message();
  if (!link_down_since_) link_down_since_ = now;
  if (!event.final || link_final_) return;
  link_final_ = true;
  if (goodbye_number_ != 0 || stopping_) return;
  stopping_ = true;
  stop_code_ = 1;
  stop_reason_ = Concat("the daemon dismissed agent ", protocol::ToString(config_.agent.key), ": ",
                        event.reason.message());
}

void SupervisorMachine::State::Keep(protocol::UpwardBody body) {
  const protocol::Upward message = outbox_.Keep(std::move(body));
  if (link_) Emit(SendUpward{message});
}

void SupervisorMachine::State::SendOnce(protocol::UpwardBody body) {
  if (link_) Emit(SendUpward{outbox_.Once(std::move(body))});
}

protocol::WorkerStatus SupervisorMachine::State::StatusOf(Slot slot, const Worker& worker) const {
  protocol::WorkerStatus status;
  status.local_rank = slot;
  status.fence = worker.fence;
  status.pid = worker.pid;
  status.alive = worker.alive;
  status.can_reform = worker.alive && worker.can_reform && worker.ending == Ending::kNot;
  status.exit_code = worker.exit_code;
  status.last_step = worker.last_step;
  return status;
}

// ---- processes ----------------------------------------------------------------------------------

const SupervisorMachine::State::Worker* SupervisorMachine::State::Find(const WorkerId& id) const {
  const auto found = workers_.find(id.slot);
  return found != workers_.end() && found->second.serial == id.serial ? &found->second : nullptr;
}

SupervisorMachine::State::Worker* SupervisorMachine::State::Find(const WorkerId& id) {
  return const_cast<Worker*>(std::as_const(*this).Find(id));
}

SupervisorMachine::State::Worker* SupervisorMachine::State::FindActive(const WorkerId& id) {
  Worker* const worker = Find(id);
  return worker != nullptr && worker->alive && worker->ending == Ending::kNot ? worker : nullptr;
}

void SupervisorMachine::State::On(const ProcessStarted& event, TimePoint /*now*/) {
  if (Worker* const worker = Find(event.worker)) worker->pid = event.pid;
}

void SupervisorMachine::State::On(const ProcessExited& event, TimePoint /*now*/) {
  Worker* const worker = Find(event.worker);
  if (worker == nullptr || !worker->alive) return;
  worker->alive = false;
  worker->exit_code = event.exit_code;
  if (worker->ending != Ending::kNot) return;  // by our own signal: no news for the daemon
  worker->exited_in = worker->fence;
  protocol::WorkerExited exited;
  exited.fence = worker->fence;
  exited.local_rank = event.worker.slot;
  exited.pid = worker->pid;
  exited.exit_code = event.exit_code;
  exited.signal = event.signal;
  exited.cause = event.cause;
  exited.last_line = event.last_line;
  Keep(std::move(exited));
}

void SupervisorMachine::State::On(const TreeGone& event, TimePoint /*now*/) {
  Worker* const worker = Find(event.worker);
  if (worker == nullptr || worker->alive || worker->ending == Ending::kNot) return;
  worker->present = false;
  worker->ending = Ending::kNot;
  worker->stuck = false;
  worker->remains.clear();
}

void SupervisorMachine::State::On(const TreeRemains& event, TimePoint /*now*/) {
  if (Worker* const worker = Find(event.worker)) worker->remains = event.processes;
}

void SupervisorMachine::State::On(const SweepDone& event, TimePoint /*now*/) {
  swept_ = true;
  left_over_ = event.remains;
}

// ---- what workers say ---------------------------------------------------------------------------

void SupervisorMachine::State::On(const WorkerRegistered& event, TimePoint /*now*/) {
  Worker* const worker = FindActive(event.worker);
  if (worker == nullptr) return;
  worker->can_reform = event.can_reform;
  worker->unheard = false;
  if (order_ && order_->kind == OrderKind::kRun && worker->fence == order_->fence) {
    Emit(SendRound{event.worker, MakeRoundInfo(*order_, event.worker.slot, config_.hello.address,
                                               config_.hello.run_id)});
  } else if (worker->ending_told && !worker->quiesced) {
    Emit(SendRoundEnding{event.worker, worker->fence, CauseWord(*order_)});
  }
}

void SupervisorMachine::State::SendProgress(Slot slot, Worker& worker, TimePoint now) {
  protocol::WorkerProgress progress;
  progress.fence = worker.fence;
  progress.local_rank = slot;
  progress.phase = worker.phase;
  progress.step = worker.last_step;
  SendOnce(progress);
  worker.progress_unsent = false;
  worker.progress_next = now + config_.beat / 4;  // the newest is all that matters to the daemon
}

void SupervisorMachine::State::On(const WorkerProgressed& event, TimePoint now) {
  Worker* const worker = FindActive(event.worker);
  if (worker == nullptr) return;
  worker->unheard = false;
  worker->phase = event.phase;
  worker->last_step = event.step;
  progress_at_ = now;
  if (now >= worker->progress_next) {
    SendProgress(event.worker.slot, *worker, now);
  } else {
    worker->progress_unsent = true;
  }
}

void SupervisorMachine::State::On(const WorkerQuiesced& event, TimePoint /*now*/) {
  Worker* const worker = FindActive(event.worker);
  if (worker == nullptr || event.fence != worker->fence) return;
  worker->unheard = false;
  worker->quiesced = true;
  worker->last_step = event.step;
}

void SupervisorMachine::State::On(const WorkerBroke& event, TimePoint /*now*/) {
  Worker* const worker = FindActive(event.worker);
  if (worker == nullptr || event.fence != worker->fence) return;
  worker->unheard = false;
  if (worker->broken_in == event.fence) return;  // once a round is enough
  worker->broken_in = event.fence;
  Keep(protocol::WorkerBroken{event.fence, event.worker.slot, event.reason});
}

void SupervisorMachine::State::On(const WorkerAsked& event, TimePoint /*now*/) {
  Worker* const worker = FindActive(event.worker);
  if (worker == nullptr) return;
  worker->unheard = false;
  if (!worker->asked.insert(event.kind).second) return;
  Keep(protocol::WorkerRequest{worker->fence, event.worker.slot, event.kind, event.reason});
}

void SupervisorMachine::State::On(const WorkerHeard& event, TimePoint /*now*/) {
  if (Worker* const worker = FindActive(event.worker)) worker->unheard = false;
}

// ---- the rest -----------------------------------------------------------------------------------

void SupervisorMachine::State::On(const PortBound& event, TimePoint /*now*/) {
  if (port_ != Port::kAsked || event.fence != port_fence_) return;
  port_ = Port::kBound;
  port_address_ = event.address;
  port_number_ = event.port;
}

void SupervisorMachine::State::On(const PortFailed& event, TimePoint /*now*/) {
  if (port_ != Port::kAsked || event.fence != port_fence_) return;
  port_ = Port::kFailed;
  port_problem_ = event.problem;
}

void SupervisorMachine::State::On(const StopAsked& event, TimePoint now) {
  if (stop_at_) {
    stop_at_ = now;  // asked twice: at once
    return;
  }
  stop_at_ = now + config_.close_wait;
  stop_reason_ = event.reason;
  stop_code_ = kTerminated;
}

void SupervisorMachine::State::On(const ParentGone& /*event*/, TimePoint /*now*/) {
  parent_gone_ = true;
}

void SupervisorMachine::State::On(const TimePassed& /*event*/, TimePoint /*now*/) {}

void SupervisorMachine::State::Thaw() {
  for (auto& [slot, worker] : workers_) {
    if (!worker.frozen || !worker.alive || worker.ending != Ending::kNot) continue;
    worker.frozen = false;
    Emit(SignalTree{{slot, worker.serial}, SIGCONT});
    Emit(Say{false, Concat("the daemon confirms ", protocol::ToString(worker.fence), ": worker ",
                           slot, " goes on")});
  }
}

}  // namespace muster::agent
