#include "rendezvousd/core/machine.h"

#include <algorithm>
#include <utility>

#include "common/check.h"
#include "common/text.h"
#include "rendezvousd/core/naming.h"
#include "rendezvousd/core/record_kinds.h"
#include "rendezvousd/core/state.h"

namespace muster::core {

using protocol::AgentId;
using protocol::Order;
using protocol::OrderKind;

Machine::Machine(protocol::Config config) : state_(std::make_unique<State>(std::move(config))) {}
Machine::~Machine() = default;
Machine::Machine(Machine&&) noexcept = default;
Machine& Machine::operator=(Machine&&) noexcept = default;

Machine::State::State(protocol::Config configuration)
    : config(std::move(configuration)), members(config), can_requeue(config.can_requeue) {
  const Status valid = protocol::Validate(config);
  MUSTER_CHECK(valid.ok(), valid.message());
  last_blame.cause = protocol::Cause::kInitial;
}

Effects Machine::Step(const Event& event, TimePoint now) {
  State& state = *state_;
  state.now = now;
  std::visit([&state](const auto& one) { state.On(one); }, event);
  if (state.orders_changed) state.FlushOrders();
  if (state.wishes.TakeChanged()) state.effects.emplace_back(SetWishes{state.wishes.open()});
  return std::exchange(state.effects, {});
}

std::optional<TimePoint> Machine::NextDeadline() const { return state_->NextDeadline(); }

std::optional<TimePoint> Machine::State::NextDeadline() const {
  std::optional<TimePoint> next;
  const auto sooner = [&next](std::optional<TimePoint> time) {
    if (time && (!next || *time < *next)) next = time;
  };
  switch (phase) {
    case Phase::kForming:
    case Phase::kLastCall:
      sooner(DecideQuorum(Inputs(), phase_since).until);
      sooner(readmit_at);
      break;
    case Phase::kPreparing:
      sooner(current->prepare_until);
      sooner(current->unwell_until);
      break;
    case Phase::kActive:
      if (current->broken) sooner(current->broken->since + config.lease + kBrokenGrace);
      if (step_ended_at && members.attached() == 0) sooner(*step_ended_at + kStepEndedGrace);
      break;
    case Phase::kDraining:
      if (requeue_wish == 0) {
        const TimePoint quiet = drain_since + kGoodbyeGrace;
        // Once the silent ones are given up, only the others are waited for.
        sooner(deadlines_done && *deadlines_done >= quiet ? quiet + config.stop_grace : quiet);
      }
      break;
    case Phase::kClosed:
      break;
  }
  return next;
}

void Machine::State::On(const DeadlinePassed&) {
  deadlines_done = now;
  switch (phase) {
    case Phase::kForming:
    case Phase::kLastCall:
      Reconsider();
      break;
    case Phase::kPreparing:
      CheckPrepare();
      break;
    case Phase::kActive:
      CheckBroken();
      break;
    case Phase::kDraining:
      CheckDrain();
      break;
    case Phase::kClosed:
      break;
  }
}

void Machine::State::SetPhase(Phase next) {
  MUSTER_CHECK(MayFollow(phase, next),
               Concat("phase ", ToString(next), " does not follow ", ToString(phase)));
  phase = next;
  phase_since = now;
  orders_changed = true;
}

void Machine::State::Tell(std::string_view kind, std::string text, const std::string& node,
                          std::int32_t rank) {
  protocol::EventRecord record;
  record.kind = kind;
  record.fence = Newest();
  record.node = node;
  record.rank = rank;
  record.text = std::move(text);
  effects.emplace_back(Report{std::move(record)});
}

// ---- orders -------------------------------------------------------------------------------------

std::optional<Order> Machine::State::OrderFor(const Agent& agent, TimePoint at) const {
  if (agent.presence == Presence::kGone) return std::nullopt;
  Order order;
  order.blame = last_blame;
  if (Over()) {
    order.kind = OrderKind::kClose;
    order.fence = Newest();
    order.deadline = config.stop_grace;
    order.verdict = verdict;
    return order;
  }
  if (!current || agent.member < 0) {
    order.kind = OrderKind::kWait;
    order.fence = Ended();
    return order;
  }
  const Member& member = current->members[static_cast<std::size_t>(agent.member)];
  order.fence = current->fence;
  order.assignment = member.assignment;
  // A prepare that came to nothing is no restart: the first round that runs is the initial one.
  if (member.assignment.restart_count == 0) order.blame.cause = protocol::Cause::kInitial;
  if (current->Active()) {
    order.kind = OrderKind::kRun;
    order.master_address = current->master_address;
    order.master_port = current->master_port;
  } else {
    order.kind = OrderKind::kPrepare;
    order.deadline = std::max(current->prepare_until - at, Duration::zero());
  }
  return order;
}

void Machine::State::FlushOrders() {
  orders_changed = false;
  for (auto& [key, agent] : members.agents()) {
    if (agent.presence != Presence::kAttached) continue;
    // What would be sent, without making the whole order for those whose did not change.
    SentOrder wanted;
    wanted.any = true;
    if (Over()) {
      wanted.kind = OrderKind::kClose;
      wanted.fence = Newest();
      wanted.exit_code = verdict.exit_code;
    } else if (current && agent.member >= 0) {
      wanted.kind = current->Active() ? OrderKind::kRun : OrderKind::kPrepare;
      wanted.fence = current->fence;
    } else {
      wanted.fence = Ended();
    }
    if (agent.sent == wanted) continue;
    agent.sent = wanted;
    effects.emplace_back(SendOrder{agent.id, *OrderFor(agent, now)});
  }
}

// ---- what others ask ----------------------------------------------------------------------------

std::optional<Order> Machine::CurrentOrder(const AgentId& agent, TimePoint now) const {
  const Agent* found = state_->members.FindExact(agent);
  return found == nullptr ? std::nullopt : state_->OrderFor(*found, now);
}

std::vector<protocol::Wish> Machine::CurrentWishes() const { return state_->wishes.open(); }

std::vector<AgentId> Machine::Present() const {
  std::vector<AgentId> present;
  for (const auto& [key, agent] : state_->members.agents()) {
    if (agent.presence != Presence::kGone) present.push_back(agent.id);
  }
  return present;
}

bool Machine::InRound(const AgentId& agent) const {
  const Agent* found = state_->members.FindExact(agent);
  return found != nullptr && found->member >= 0;
}

std::optional<protocol::Verdict> Machine::Finished() const {
  if (state_->phase != Phase::kClosed) return std::nullopt;
  return state_->verdict;
}

const protocol::Config& Machine::config() const { return state_->config; }

namespace {

bool IsTransient(const protocol::UpwardBody& body) {
  return std::holds_alternative<protocol::Beat>(body) ||
         std::holds_alternative<protocol::WorkerProgress>(body) ||
         std::holds_alternative<protocol::ProbeAnswer>(body);
}

}  // namespace

bool IsJournalled(const Event& event) {
  if (const auto* said = std::get_if<AgentMessage>(&event)) {
    return !IsTransient(said->message.body);
  }
  if (const auto* call = std::get_if<KeyCall>(&event)) {
    return call->request.operation == protocol::KeyOperation::kSet ||
           call->request.operation == protocol::KeyOperation::kAdd;
  }
  return !std::holds_alternative<CallExpired>(event);
}

bool Machine::MustJournal(const Event& event) const {
  if (IsJournalled(event)) return true;
  const auto* said = std::get_if<AgentMessage>(&event);
  if (said == nullptr) return false;
  const auto* progress = std::get_if<protocol::WorkerProgress>(&said->message.body);
  const Round* running = std::as_const(*state_).Running();
  return progress != nullptr && running != nullptr && !running->progressed && progress->step >= 0 &&
         progress->fence == running->fence && InRound(said->message.agent);
}

}  // namespace muster::core
