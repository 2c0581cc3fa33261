// The model of an agent and its workers: obeys orders, beats, freezes its workers when it is cut
// off, keeps its messages until they are acknowledged.

#include <algorithm>

#include "common/text.h"
#include "tests/sim/sim.h"

namespace muster::sim {

using protocol::OrderKind;

void Sim::StartAgent(SimNode& node, std::uint32_t task) {
  if (!node.powered || node.dropped) return;
  auto agent = std::make_shared<SimAgent>();
  agent->id = {{node.name, 0, task}, ++incarnations_ * 7919};
  agent->node = &node;
  agent->last_answer = now_;
  agents_.push_back(agent);
  Trace(Concat("agent ", ToString(agent->id.key), " starts as ", agent->id.incarnation));
  Connect(agent);
  BeatTick(agent);
  WorkTick(agent);
}

// The workers end with it.
void Sim::EndAgent(const std::shared_ptr<SimAgent>& agent, bool stream_reset) {
  if (!agent->alive) return;
  Trace(Concat("agent ", ToString(agent->id.key), " ends"));
  agent->alive = false;
  for (SimWorker& worker : agent->workers) worker.alive = false;
  if (agent->connection) Break(agent->connection, stream_reset);
}

void Sim::Connect(const std::shared_ptr<SimAgent>& agent) {
  if (!agent->alive || (agent->connection && agent->connection->agent_open)) return;
  if (agent->paused || !UpOpen(*agent) || !DownOpen(*agent)) {
    At(Seconds(0.05, 1), [this, agent] { Connect(agent); });
    return;
  }
  agent->connection = std::make_shared<Connection>();
  agent->connection->agent = agent;
  protocol::Hello hello;
  hello.version = config_.version;
  hello.run_id = config_.run_id;
  hello.node_index = agent->node->index;
  hello.agents_on_node = 1;
  hello.slots = config_.workers_per_agent;
  hello.address = agent->node->name;
  if (agent->order) hello.fence = agent->order->fence;
  hello.fence.attempt = config_.attempt;
  for (std::uint32_t i = 0; i < agent->workers.size(); ++i) {
    const SimWorker& worker = agent->workers[i];
    // A killed worker is no exit to tell: it was ended by an order.
    if (!worker.alive && worker.code < 0) continue;
    protocol::WorkerStatus status;
    status.local_rank = i;
    status.fence = worker.fence;
    status.alive = worker.alive;
    status.exit_code = worker.code;
    status.last_step = worker.step;
    hello.workers.push_back(status);
  }
  SendUp(agent->connection, {agent->id, 0, std::move(hello)});
  for (const protocol::Upward& message : agent->unacknowledged) {
    SendUp(agent->connection, message);
  }
}

void Sim::Disconnected(const std::shared_ptr<SimAgent>& agent, const Status& status) {
  if (!agent->alive) return;
  agent->connection.reset();
  const bool final = status.code() == StatusCode::kAborted ||
                     status.code() == StatusCode::kFailedPrecondition ||
                     status.code() == StatusCode::kInvalidArgument;
  if (final) {
    Trace(Concat("agent ", ToString(agent->id.key), " is sent away: ", status.message()));
    EndAgent(agent, false);
    return;
  }
  At(Seconds(0.02, 0.5), [this, agent] { Connect(agent); });
}

void Sim::Say(const std::shared_ptr<SimAgent>& agent, protocol::UpwardBody body) {
  protocol::Upward message{agent->id, ++agent->number, std::move(body)};
  agent->unacknowledged.push_back(message);
  if (agent->connection) SendUp(agent->connection, std::move(message));
}

void Sim::BeatTick(const std::shared_ptr<SimAgent>& agent) {
  if (!agent->alive) return;
  if (!agent->paused && agent->connection) {
    SendUp(agent->connection, {agent->id, 0, protocol::Beat{++agent->beats}});
    // A stream that carries nothing for long is given up.
    if (now_ - agent->last_answer > std::chrono::seconds(12) && random_.Chance(0.2)) {
      const auto connection = agent->connection;
      Break(connection, true);
      Disconnected(agent, Unavailable("keep-alive"));
    }
  }
  At(config_.beat, [this, agent] { BeatTick(agent); });
}

// The rule of the real agent: frozen one second before the daemon's lease can end.
bool Sim::Frozen(const SimAgent& agent) const {
  return now_ - agent.last_answer >= config_.lease - std::chrono::seconds(1);
}

// True while every rank of the round is at work or done.
bool Sim::Healthy(const protocol::Fence& fence) const {
  const auto found = rounds_.find(fence);
  if (found == rounds_.end()) return false;
  std::size_t working = found->second.done.size();
  for (const auto& agent : agents_) {
    if (!agent->alive || !agent->node->powered || agent->node->island) continue;
    if (!agent->paused && Frozen(*agent)) continue;
    working += static_cast<std::size_t>(std::count_if(
        agent->workers.begin(), agent->workers.end(),
        [&](const SimWorker& worker) { return worker.alive && worker.fence == fence; }));
  }
  return working >= found->second.world_size;
}

void Sim::WorkTick(const std::shared_ptr<SimAgent>& agent) {
  if (!agent->alive) return;
  At(Seconds(0.5, 1.5), [this, agent] { WorkTick(agent); });
  if (!agent->node->powered || agent->paused || !agent->order ||
      agent->order->kind != OrderKind::kRun) {
    return;
  }
  const protocol::Fence fence = agent->order->fence;
  const bool healthy = Healthy(fence) && !Frozen(*agent);
  for (std::uint32_t local = 0; local < agent->workers.size(); ++local) {
    SimWorker& worker = agent->workers[local];
    if (!worker.alive || worker.fence != fence || Frozen(*agent)) continue;
    if (!healthy) {
      // Its peers are gone: it tells, fails of it, or just hangs.
      if (random_.Chance(0.3)) {
        Say(agent, protocol::WorkerBroken{fence, local, "peer lost"});
      } else if (random_.Chance(0.1)) {
        WorkerEnds(agent, local, 1, 0, protocol::Cause::kNetwork);
      }
      continue;
    }
    ++worker.step;
    if (agent->connection) {
      SendUp(agent->connection,
             {agent->id, 0, protocol::WorkerProgress{fence, local, 1, worker.step}});
    }
    if (worker.step >= target_step_) {
      WorkerEnds(agent, local, 0, 0);
    } else if (chaos_ && random_.Chance(faults_.worker_fails)) {
      WorkerEnds(agent, local, 1, 0);
    } else if (chaos_ && random_.Chance(faults_.worker_killed)) {
      WorkerEnds(agent, local, 137, 9);
    } else if (chaos_ && random_.Chance(faults_.requeue_request)) {
      Say(agent, protocol::WorkerRequest{fence, local, 0, "wants to"});
    }
  }
  if (healthy && random_.Chance(0.3)) AskSomething(agent);
}

void Sim::WorkerEnds(const std::shared_ptr<SimAgent>& agent, std::uint32_t local, std::int32_t code,
                     std::int32_t signal, protocol::Cause cause) {
  SimWorker& worker = agent->workers[local];
  worker.alive = false;
  worker.code = code;
  if (code == 0) {
    rounds_[worker.fence].done.insert(agent->order->assignment.first_rank + local);
  }
  protocol::WorkerExited exit;
  exit.fence = worker.fence;
  exit.local_rank = local;
  exit.exit_code = code;
  exit.signal = signal;
  exit.cause = cause;
  exit.last_line = code == 0 ? "" : Concat("error ", random_.Below(3));
  Say(agent, std::move(exit));
}

void Sim::Receive(const std::shared_ptr<SimAgent>& agent, const protocol::Downward& message) {
  if (const auto* order = std::get_if<protocol::Order>(&message)) {
    if (agent->order && order->fence < agent->order->fence) {
      Problem(Concat(ToString(agent->id.key), " got an order of ", ToString(order->fence),
                     " after one of ", ToString(agent->order->fence)));
    }
    agent->order = *order;
    agent->last_answer = now_;
    Reconcile(agent);
  } else if (const auto* answer = std::get_if<protocol::BeatAnswer>(&message)) {
    agent->last_answer = now_;
    static_cast<void>(answer);
  } else if (const auto* acknowledged = std::get_if<protocol::Acknowledge>(&message)) {
    while (!agent->unacknowledged.empty() &&
           agent->unacknowledged.front().number <= acknowledged->number) {
      agent->unacknowledged.pop_front();
    }
    // The goodbye was heard: the process ends.
    if (agent->goodbye_said && agent->unacknowledged.empty()) EndAgent(agent, true);
  } else if (const auto* probe = std::get_if<protocol::Probe>(&message)) {
    bool reachable = false;
    for (const SimNode& node : nodes_) {
      if (node.name != probe->address) continue;
      reachable = node.powered && !node.island && !agent->node->island;
    }
    const Duration takes = reachable ? Delay() : probe->timeout;
    At(takes, [this, agent, id = probe->probe_id, reachable] {
      if (!agent->alive || !agent->connection) return;
      SendUp(agent->connection, {agent->id, 0, protocol::ProbeAnswer{id, reachable, ""}});
    });
  }
}

void Sim::Kill(const std::shared_ptr<SimAgent>& agent) {
  if (agent->killing) return;
  agent->killing = true;
  const bool slow = chaos_ && random_.Chance(faults_.slow_ready);
  At(slow ? Seconds(10, 50) : Seconds(0.01, 2), [this, agent] {
    agent->killing = false;
    if (!agent->alive) return;
    for (SimWorker& worker : agent->workers) {
      if (!worker.alive) continue;
      worker.alive = false;
      worker.code = -1;
    }
    Reconcile(agent);
  });
}

// Makes the agent what its newest order says.
void Sim::Reconcile(const std::shared_ptr<SimAgent>& agent) {
  if (!agent->alive || !agent->order || agent->goodbye_said) return;
  const protocol::Order order = *agent->order;
  const bool of_this = !agent->workers.empty() && agent->workers.front().fence == order.fence;
  const bool alive = std::any_of(agent->workers.begin(), agent->workers.end(),
                                 [](const SimWorker& worker) { return worker.alive; });
  if (order.kind == OrderKind::kRun && of_this) return;
  const bool leaves_them = planted_ == Planted::kRunsTwoRounds && random_.Chance(0.2);
  if (alive && !leaves_them) return Kill(agent);
  switch (order.kind) {
    case OrderKind::kWait:
      break;
    case OrderKind::kPrepare:
      if (agent->ready_said == order.fence || agent->readying) break;
      agent->readying = true;
      At(Seconds(0.01, 1), [this, agent] {
        agent->readying = false;
        if (!agent->alive || agent->order->kind != OrderKind::kPrepare) return;
        protocol::Ready ready;
        ready.fence = agent->order->fence;
        if (chaos_ && random_.Chance(faults_.ready_problem)) ready.problem = "cannot";
        if (agent->order->assignment.first_rank == 0) {
          ready.master_address = agent->node->name;
          ready.master_port = 1 + static_cast<std::uint32_t>(random_.Below(60000));
        }
        agent->ready_said = ready.fence;
        Say(agent, std::move(ready));
      });
      break;
    case OrderKind::kRun:
      agent->workers.assign(order.assignment.workers, {.fence = order.fence, .alive = true});
      agent->barriers_asked.clear();
      break;
    case OrderKind::kClose:
      agent->goodbye_said = true;
      At(Seconds(0.01, 2), [this, agent] {
        if (agent->alive) Say(agent, protocol::Goodbye{"as ordered"});
      });
      break;
  }
}

// ---- keys and barriers --------------------------------------------------------------------------

void Sim::AskSomething(const std::shared_ptr<SimAgent>& agent) {
  const protocol::Order& order = *agent->order;
  const protocol::RequestId id{agent->id, ++agent->requests};
  Call call;
  call.agent = agent;
  if (random_.Chance(0.5)) {
    // The barriers of a round come in one order on every rank.
    const std::string name = Concat("b", agent->barriers_asked.size());
    agent->barriers_asked.insert(name);
    protocol::BarrierRequest request{id, order.fence, name, {}};
    for (std::uint32_t i = 0; i < order.assignment.workers; ++i) {
      request.ranks.push_back(order.assignment.first_rank + i);
    }
    call.barrier = std::move(request);
  } else {
    protocol::KeyRequest request;
    request.id = id;
    request.fence = order.fence;
    request.of_run = random_.Chance(0.3);
    request.operation = static_cast<protocol::KeyOperation>(random_.Below(4));
    const bool adds = request.operation == protocol::KeyOperation::kAdd;
    request.key = Concat(adds ? "c" : "k", random_.Below(adds ? 3 : 20));
    request.value = std::to_string(random_.Below(3));
    request.delta = 1;
    call.key = std::move(request);
  }
  Ask(agent, std::move(call), 3);
}

// A call takes its time to the daemon, may be lost, and is repeated with the same id.
void Sim::Ask(const std::shared_ptr<SimAgent>& agent, Call call, int tries) {
  At(Delay(), [this, agent, call, tries] {
    if (!agent->alive || tries == 0) return;
    if (!UpOpen(*agent) || now_ < loop_away_until_) {
      At(Seconds(0.1, 1), [this, agent, call, tries] { Ask(agent, call, tries - 1); });
      return;
    }
    const core::Token token = ++tokens_;
    calls_[token] = call;
    if (planted_ == Planted::kRepeatsRequests && call.key) {
      protocol::KeyRequest twice = *call.key;
      twice.id.number = 0;
      calls_[++tokens_] = call;
      Step(core::KeyCall{tokens_, twice});
    }
    if (call.key) Step(core::KeyCall{token, *call.key});
    if (call.barrier) {
      RoundFacts& facts = rounds_[call.barrier->fence];
      for (const std::uint32_t rank : call.barrier->ranks) {
        facts.arrived[call.barrier->name].insert(rank);
      }
      Step(core::BarrierCall{token, *call.barrier});
    }
    // Its deadline passes, or its connection ends and it asks again.
    At(Seconds(0.5, 30), [this, agent, call, token, tries] {
      const auto open = calls_.find(token);
      if (open == calls_.end() || open->second.answered || !daemon_up_) return;
      Step(core::CallExpired{token});
      if (random_.Chance(0.5)) Ask(agent, call, tries - 1);
    });
    // The answer was lost: the same request again, which must not be done again.
    if (random_.Chance(0.1)) Ask(agent, call, tries - 1);
  });
}

}  // namespace muster::sim
