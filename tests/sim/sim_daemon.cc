// The daemon's loop around the real machine and detector, its journal, and the host.

#include <algorithm>

#include "common/text.h"
#include "tests/sim/sim.h"

namespace muster::sim {

std::unique_ptr<core::FailureDetector> Sim::NewDetector() const {
  core::DetectorConfig config;
  config.beat = config_.beat;
  config.lease = config_.lease;
  config.attend_grace = config_.attend_grace;
  config.probe_timeout = config_.probe_timeout;
  return std::make_unique<core::FailureDetector>(config);
}

// What must be the same after a replay. Last steps are not journalled, so not in it.
std::string Sim::Summary(const core::Machine& machine) const {
  const protocol::RunView view = machine.View(now_);
  std::string out =
      Concat(view.phase, "|", ToString(view.fence), "|", view.world_size, "|", view.waiting_for,
             "|", view.last_blame.text, "|", view.verdict.exit_code, view.verdict.blame.text);
  for (const protocol::AgentView& agent : view.agents) {
    out += Concat("\n", ToString(agent.key), " ", agent.state, " ", agent.node_rank);
  }
  for (const protocol::AgentId& id : machine.Present()) {
    const auto order = machine.CurrentOrder(id, now_);
    if (!order) continue;
    out += Concat("\n", ToString(id.key), " ", id.incarnation, " ", ToString(order->kind), " ",
                  ToString(order->fence), " ", order->assignment.first_rank, " ",
                  order->master_address, ":", order->master_port, " ", order->deadline.count());
  }
  for (const protocol::Wish& wish : machine.CurrentWishes()) {
    out += Concat("\nwish ", wish.id, " ", static_cast<int>(wish.kind), " ", wish.reason);
  }
  const auto next = machine.NextDeadline();
  out += Concat("\nnext ", next ? next->time_since_epoch().count() : -1);
  return out;
}

void Sim::Step(const core::Event& event) {
  if (!result_.problem.empty()) return;
  const bool keeps = planted_ != Planted::kForgetsJournal || !random_.Chance(0.05);
  if (machine_->MustJournal(event) && keeps) journal_.emplace_back(event, now_);
  ++result_.steps;
  const core::Effects effects = machine_->Step(event, now_);
  machine_->CheckInvariants(now_);
  for (const core::Effect& effect : effects) {
    std::visit([this](const auto& one) { Apply(one); }, effect);
  }
}

void Sim::Detected(const core::Detection& detection) {
  for (const core::SendProbe& probe : detection.probes) {
    const auto stream = streams_.find(probe.prober);
    if (stream != streams_.end()) SendDown(stream->second, probe.probe);
  }
  for (const core::Event& event : detection.events) Step(event);
}

void Sim::DaemonReceive(const std::shared_ptr<Connection>& connection,
                        const protocol::Upward& said) {
  if (!connection->daemon_open) return;
  if (const auto* hello = std::get_if<protocol::Hello>(&said.body)) {
    const auto old = streams_.find(said.agent);
    if (old != streams_.end() && old->second != connection) {
      old->second->daemon_open = false;
    }
    streams_[said.agent] = connection;
    addresses_[said.agent] = hello->address;
    Step(core::AgentMessage{said});
    // A refused one is forgotten in Apply(Dismiss), which may have come already.
    if (connection->daemon_open) Detected(detector_->OnAttend(said.agent, hello->address, now_));
    return;
  }
  const auto stream = streams_.find(said.agent);
  if (stream == streams_.end() || stream->second != connection) return;
  if (const auto* beat = std::get_if<protocol::Beat>(&said.body)) {
    SendDown(connection, protocol::BeatAnswer{beat->sequence, machine_->View(now_).fence});
    Detected(detector_->OnBeat(said.agent, now_));
    return;
  }
  if (const auto* answer = std::get_if<protocol::ProbeAnswer>(&said.body)) {
    Detected(detector_->OnProbeAnswer(said.agent, *answer, now_));
    return;
  }
  if (std::holds_alternative<protocol::WorkerProgress>(said.body) &&
      machine_->InRound(said.agent)) {
    detector_->OnProgress(now_);
  }
  if (std::holds_alternative<protocol::Goodbye>(said.body)) detector_->Forget(said.agent);
  Step(core::AgentMessage{said});
}

void Sim::DaemonStreamEnded(const std::shared_ptr<Connection>& connection) {
  if (!connection->daemon_open || !daemon_up_) return;
  connection->daemon_open = false;
  for (const auto& [id, stream] : streams_) {
    if (stream != connection) continue;
    const protocol::AgentId agent = id;
    streams_.erase(agent);
    Step(core::AgentDetached{agent});
    Detected(detector_->OnDetached(agent, now_));
    return;
  }
}

void Sim::DaemonTick() {
  if (daemon_up_ && now_ >= loop_away_until_) {
    Detected(detector_->OnTime(now_));
    for (int fired = 0;; ++fired) {
      const auto due = machine_->NextDeadline();
      if (!due || *due > now_) break;
      if (fired > 100) return Problem("deadlines do not stop firing");
      Step(core::DeadlinePassed{});
    }
  }
  At(std::chrono::milliseconds(100), [this] { DaemonTick(); });
}

void Sim::DaemonCrash() {
  if (!daemon_up_) return;
  Trace("daemon ends");
  daemon_up_ = false;
  for (auto& [token, call] : calls_) call.answered = true;  // their connections are gone
  for (const auto& [id, connection] : streams_) {
    connection->daemon_open = false;
    const auto broken = connection;
    At(Seconds(0.001, 0.1), [this, broken] {
      if (!broken->agent_open) return;
      broken->agent_open = false;
      Disconnected(broken->agent, Unavailable("the daemon is gone"));
    });
  }
  streams_.clear();
  At(Seconds(0.2, 3), [this] { DaemonRestart(); });
}

void Sim::DaemonRestart() {
  if (daemon_up_) return;
  ++result_.replays;
  auto restarted = std::make_unique<core::Machine>(config_);
  for (const auto& [event, time] : journal_) restarted->Step(event, time);
  restarted->CheckInvariants(now_);
  const std::string before = Summary(*machine_);
  const std::string after = Summary(*restarted);
  if (before != after) {
    return Problem(Concat("the replay differs; before:\n", before, "\nafter:\n", after));
  }
  machine_ = std::move(restarted);
  detector_ = NewDetector();
  daemon_up_ = true;
  Trace("daemon starts again");
  Step(core::Restarted{});
  for (const protocol::AgentId& agent : machine_->Present()) {
    Detected(detector_->OnAttend(agent, addresses_[agent], now_));
  }
  HostSees(machine_->CurrentWishes());
}

// ---- effects ------------------------------------------------------------------------------------

void Sim::Apply(const core::SendOrder& effect) {
  const protocol::Order& order = effect.order;
  Trace(Concat("  -> ", ToString(effect.agent.key), " ", ToString(order.kind), " ",
               ToString(order.fence)));
  protocol::Fence& newest = newest_order_[effect.agent];
  if (order.fence < newest) Problem(Concat("orders to ", ToString(effect.agent.key), " go back"));
  newest = order.fence;
  if (order.kind == protocol::OrderKind::kRun) {
    RoundFacts& facts = rounds_[order.fence];
    const protocol::Assignment& own = order.assignment;
    const std::string master = Concat(order.master_address, ":", order.master_port);
    if (facts.world_size == 0) {
      facts.world_size = own.world_size;
      facts.master = master;
    }
    if (facts.world_size != own.world_size || facts.master != master) {
      Problem(Concat("two worlds in ", ToString(order.fence)));
    }
    const auto [place, fresh] = facts.first_ranks.emplace(own.first_rank, effect.agent);
    if (!fresh && place->second != effect.agent) {
      Problem(Concat("rank ", own.first_rank, " was given twice in ", ToString(order.fence)));
    }
    facts.workers[own.first_rank] = own.workers;
  }
  if (planted_ == Planted::kLosesOrders && order.kind == protocol::OrderKind::kRun &&
      random_.Chance(0.5)) {
    return;
  }
  const auto stream = streams_.find(effect.agent);
  if (stream == streams_.end()) return;
  SendDown(stream->second, order);
}

void Sim::Apply(const core::SendAcknowledge& effect) {
  const auto stream = streams_.find(effect.agent);
  if (stream != streams_.end()) SendDown(stream->second, protocol::Acknowledge{effect.number});
}

void Sim::Apply(const core::Dismiss& effect) {
  Trace(Concat("  -> ", ToString(effect.agent.key), " dismissed: ", effect.reason.ToString()));
  detector_->Forget(effect.agent);
  const auto stream = streams_.find(effect.agent);
  if (stream == streams_.end()) return;
  const std::shared_ptr<Connection> connection = stream->second;
  streams_.erase(stream);
  connection->daemon_open = false;
  const std::function<void()> tell = [this, connection, reason = effect.reason] {
    if (!connection->agent_open) return;
    if (!DownOpen(*connection->agent) || connection->agent->paused) {
      // It finds out by itself that nobody answers any more.
      At(Seconds(3, 15), [this, connection] {
        if (!connection->agent_open) return;
        connection->agent_open = false;
        Disconnected(connection->agent, Unavailable("no answer"));
      });
      return;
    }
    connection->agent_open = false;
    Disconnected(connection->agent, reason);
  };
  At(Delay(), tell);
}

void Sim::Answered(core::Token token, const Status& status) {
  const auto found = calls_.find(token);
  if (found == calls_.end() || found->second.answered) {
    return Problem(Concat("token ", token, " was answered twice"));
  }
  found->second.answered = true;
  if (planted_ == Planted::kAnswersTwice && random_.Chance(0.1)) Answered(token, status);
  if (!status.ok() || !found->second.barrier) return;
  const protocol::BarrierRequest& barrier = *found->second.barrier;
  const RoundFacts& facts = rounds_[barrier.fence];
  if (facts.arrived.at(barrier.name).size() < facts.world_size) {
    Problem(Concat("barrier ", barrier.name, " was freed before all ranks came"));
  }
}

// A value never changes, and each adding request has a sum of its own, however often it was made.
void Sim::CheckKeyAnswer(const protocol::KeyRequest& request, const protocol::KeyAnswer& answer) {
  if (!answer.status.ok()) return;
  const protocol::Fence lives_in =
      request.of_run ? protocol::Fence{request.fence.attempt, 0} : request.fence;
  const KeyPlace place(lives_in, request.key);
  if (request.operation == protocol::KeyOperation::kAdd) {
    const auto [sum, fresh] = sums_[place].emplace(answer.number, request.id);
    if (!fresh && sum->second != request.id) {
      Problem(Concat("two requests were told the sum ", answer.number, " of ", request.key));
    }
    for (const auto& [number, id] : sums_[place]) {
      if (id == request.id && number != answer.number) {
        Problem(Concat("one request added twice to ", request.key));
      }
    }
    return;
  }
  if (request.key.front() != 'k') return;  // counters change
  const std::string& told =
      request.operation == protocol::KeyOperation::kSet ? request.value : answer.value;
  const auto [value, fresh] = values_.emplace(place, told);
  if (!fresh && value->second != told) {
    Problem(Concat("key ", request.key, " changed from ", value->second, " to ", told));
  }
}

void Sim::Apply(const core::ReplyKey& effect) {
  const auto call = calls_.find(effect.token);
  if (call != calls_.end() && call->second.key) {
    CheckKeyAnswer(*call->second.key, effect.answer);
  }
  Answered(effect.token, effect.answer.status);
}
void Sim::Apply(const core::ReplyBarrier& effect) { Answered(effect.token, effect.status); }

void Sim::Apply(const core::Report& effect) {
  Trace(Concat(effect.record.kind, ": ", effect.record.text));
  if (effect.record.kind != "round started") return;
  // No rank lives twice: whoever is in the new round has nothing left of an older one.
  for (const auto& agent : agents_) {
    if (!agent->alive || !machine_->InRound(agent->id)) continue;
    for (const SimWorker& worker : agent->workers) {
      if (worker.alive && worker.fence < effect.record.fence) {
        Problem(Concat(ToString(agent->id.key), " still runs ", ToString(worker.fence), " while ",
                       ToString(effect.record.fence), " starts"));
      }
    }
  }
}

// ---- the host -----------------------------------------------------------------------------------

void Sim::Apply(const core::SetWishes& effect) { HostSees(effect.wishes); }

// Each wish is done or refused once; who asks again is told again.
void Sim::HostSees(const std::vector<protocol::Wish>& wishes) {
  for (const protocol::Wish& wish : wishes) {
    const bool known = host_answers_.contains(wish.id);
    if (!known) {
      const bool done = wish.kind == protocol::WishKind::kFinish || random_.Chance(0.8);
      host_answers_[wish.id] = {
          wish.id, done ? protocol::WishState::kDone : protocol::WishState::kRefused, "the host"};
      if (done && wish.kind == protocol::WishKind::kStartAgent) {
        for (SimNode& node : nodes_) {
          if (node.name != wish.nodes.front() || !node.powered || node.dropped) continue;
          if (!LivingAgent(node, 0)) StartAgent(node, 0);
        }
      }
      if (done && wish.kind == protocol::WishKind::kDropNodes) {
        for (SimNode& node : nodes_) {
          if (node.name != wish.nodes.front()) continue;
          node.dropped = true;
          for (const auto& agent : agents_) {
            // Slurm ends what it can reach; the rest freezes by itself.
            if (agent->node == &node && !node.island) EndAgent(agent, true);
          }
        }
      }
    }
    const Duration takes = random_.Chance(0.1) ? Seconds(1, 20) : Seconds(0.05, 1);
    const std::function<void()> answer = [this, id = wish.id] {
      if (daemon_up_) Step(core::HostMessage{host_answers_.at(id)});
    };
    At(takes, answer);
  }
}

}  // namespace muster::sim
