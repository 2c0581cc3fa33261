// Time, the network and the checks.

#include "tests/sim/sim.h"

#include <algorithm>
#include <cstdio>

#include "common/text.h"

namespace muster::sim {

Sim::Sim(std::uint64_t seed, bool trace, Planted planted)
    : seed_(seed), trace_(trace), planted_(planted), random_(seed) {
  MakeWorld();
}

void Sim::MakeWorld() {
  config_.run_id = "sim";
  config_.version = "1";
  const auto expected = static_cast<std::uint32_t>(random_.Between(1, 7));
  config_.max_nodes = static_cast<std::uint32_t>(random_.Between(1, expected));
  config_.min_nodes = random_.Chance(0.5)
                          ? config_.max_nodes
                          : static_cast<std::uint32_t>(random_.Between(1, config_.max_nodes));
  config_.workers_per_agent = static_cast<std::uint32_t>(random_.Between(1, 3));
  config_.can_requeue = random_.Chance(0.5);
  const bool known = random_.Chance(0.8);
  for (std::uint32_t i = 0; i < expected; ++i) {
    nodes_.push_back({.name = Concat("n", i), .index = i});
    if (!known) continue;
    config_.nodes.push_back(nodes_.back().name);
    config_.agents_per_node.push_back(random_.Chance(0.2) ? 2 : 1);
  }
  if (random_.Chance(0.7)) config_.batch_node = "n0";
  target_step_ = random_.Between(20, 400);
  if (random_.Chance(0.7)) {
    // Most seeds are about coming back, not about when to stop trying.
    for (int cause = 1; cause <= static_cast<int>(protocol::Cause::kGrow); ++cause) {
      config_.budgets[static_cast<protocol::Cause>(cause)] = {protocol::kUnboundedRestarts};
    }
  }
  // A quiet world now and then, and one with much more of everything.
  const double factor = random_.Chance(0.1) ? 0.0 : random_.Chance(0.2) ? 4.0 : 1.0;
  for (double* chance :
       {&faults_.agent_crash, &faults_.agent_pause, &faults_.agent_twin, &faults_.agent_term,
        &faults_.power_off, &faults_.island, &faults_.cut_up, &faults_.cut_down,
        &faults_.stream_reset, &faults_.worker_fails, &faults_.worker_killed, &faults_.daemon_crash,
        &faults_.loop_late, &faults_.step_ends}) {
    *chance *= factor * (random_.Chance(0.3) ? 0.0 : 1.0);
  }
  machine_ = std::make_unique<core::Machine>(config_);
  detector_ = NewDetector();
}

Result Sim::Run() {
  for (SimNode& node : nodes_) {
    const std::uint32_t agents =
        config_.agents_per_node.empty() ? 1 : config_.agents_per_node[node.index];
    for (std::uint32_t task = 0; task < agents; ++task) {
      At(Seconds(0, 20), [this, &node, task] { StartAgent(node, task); });
    }
  }
  At(Duration::zero(), [this] { DaemonTick(); });
  At(std::chrono::seconds(1), [this] { ChaosSecond(); });
  RunUntil(now_ + Seconds(60, 400));
  if (!result_.problem.empty()) return result_;
  Heal();
  // Long enough for a doubt, a wait for nodes, drains and two prepares in a row.
  RunUntil(now_ + std::chrono::seconds(240));
  CheckConverged();
  // And for the training to end.
  RunUntil(now_ + std::chrono::minutes(30));
  CheckEnd();
  result_.rounds = static_cast<std::uint32_t>(rounds_.size());
  return result_;
}

void Sim::At(Duration delay, std::function<void()> action) {
  queue_.push({now_ + std::max(delay, Duration::zero()), ++index_, std::move(action)});
}

void Sim::RunUntil(TimePoint end) {
  while (!queue_.empty() && queue_.top().time <= end && result_.problem.empty()) {
    const Later next = queue_.top();
    queue_.pop();
    now_ = next.time;
    next.action();
    if (machine_->Finished() && !chaos_) break;
  }
  now_ = std::max(now_, end);
}

Duration Sim::Seconds(double low, double high) {
  return Duration(static_cast<std::int64_t>((low + (high - low) * random_.Unit()) * 1e9));
}

// Mostly a millisecond, now and then a retransmission.
Duration Sim::Delay() { return random_.Chance(0.05) ? Seconds(0.05, 1.2) : Seconds(0.0002, 0.005); }

void Sim::Problem(std::string text) {
  if (!result_.problem.empty()) return;
  result_.problem = std::move(text);
  Trace("PROBLEM " + result_.problem);
}

void Sim::Trace(const std::string& text) {
  if (!trace_) return;
  const double seconds = static_cast<double>(now_.time_since_epoch().count()) * 1e-9 - 3600;
  std::printf("%10.4f  %s\n", seconds, text.c_str());
}

// ---- network ------------------------------------------------------------------------------------

bool Sim::UpOpen(const SimAgent& agent) const {
  return agent.node->powered && !agent.node->island && !agent.node->cut_up && daemon_up_;
}
bool Sim::DownOpen(const SimAgent& agent) const {
  return agent.node->powered && !agent.node->island && !agent.node->cut_down && daemon_up_;
}

void Sim::SendUp(const std::shared_ptr<Connection>& connection, protocol::Upward message) {
  if (!connection->agent_open) return;
  connection->up.emplace_back(now_ + Delay(), std::move(message));
  if (random_.Chance(faults_.duplicate)) connection->up.push_back(connection->up.back());
  if (!connection->up_pumping) PumpUp(connection);
}

void Sim::SendDown(const std::shared_ptr<Connection>& connection, protocol::Downward message) {
  if (!connection->daemon_open) return;
  connection->down.emplace_back(now_ + Delay(), std::move(message));
  if (random_.Chance(faults_.duplicate)) connection->down.push_back(connection->down.back());
  if (!connection->down_pumping) PumpDown(connection);
}

void Sim::PumpUp(const std::shared_ptr<Connection>& connection) {
  connection->up_pumping = false;
  while (!connection->up.empty() && connection->daemon_open) {
    Duration wait = connection->up.front().first - now_;
    // A loop that is away, or a cut link: what was sent waits, in order.
    if (!UpOpen(*connection->agent) || now_ < loop_away_until_) {
      wait = std::max(wait, Duration(std::chrono::milliseconds(100)));
    }
    if (wait > Duration::zero()) {
      connection->up_pumping = true;
      At(wait, [this, connection] { PumpUp(connection); });
      return;
    }
    const protocol::Upward message = std::move(connection->up.front().second);
    connection->up.pop_front();
    DaemonReceive(connection, message);
  }
}

void Sim::PumpDown(const std::shared_ptr<Connection>& connection) {
  connection->down_pumping = false;
  while (!connection->down.empty() && connection->agent_open && connection->agent->alive) {
    Duration wait = connection->down.front().first - now_;
    if (!DownOpen(*connection->agent) || connection->agent->paused) {
      wait = std::max(wait, Duration(std::chrono::milliseconds(100)));
    }
    if (wait > Duration::zero()) {
      connection->down_pumping = true;
      At(wait, [this, connection] { PumpDown(connection); });
      return;
    }
    const protocol::Downward message = std::move(connection->down.front().second);
    connection->down.pop_front();
    Receive(connection->agent, message);
  }
}

// The agent's end is closed; the daemon may learn it (a reset) or not (power, a cut link).
void Sim::Break(const std::shared_ptr<Connection>& connection, bool daemon_learns) {
  if (!connection->agent_open) return;
  connection->agent_open = false;
  if (!daemon_learns) return;
  At(Delay(), [this, connection] {
    if (UpOpen(*connection->agent)) {
      DaemonStreamEnded(connection);
    } else {
      // The kernel goes on trying to tell; the daemon's keep-alive gives up in the end.
      At(Seconds(5, 20), [this, connection] { DaemonStreamEnded(connection); });
    }
  });
}

// ---- checks -------------------------------------------------------------------------------------

std::string Sim::WhoDisobeys() const {
  for (const auto& agent : agents_) {
    if (!agent->alive || agent->paused || !agent->node->powered) continue;
    const auto wanted = machine_->CurrentOrder(agent->id, now_);
    if (!wanted) continue;  // it is on its way back, or refused
    if (!agent->order || agent->order->kind != wanted->kind ||
        agent->order->fence != wanted->fence) {
      return Concat(ToString(agent->id.key), " obeys ",
                    agent->order ? ToString(agent->order->kind) : "nothing", " instead of ",
                    ToString(wanted->kind), " of ", ToString(wanted->fence));
    }
  }
  return {};
}

// All faults are over for long: everybody obeys the newest order, and the world runs if it can.
void Sim::CheckConverged() {
  if (!result_.problem.empty() || machine_->Finished()) return;
  // An order may just be on its way: none is for long.
  std::string disobeys = WhoDisobeys();
  for (int more = 0; more < 3 && !disobeys.empty(); ++more) {
    RunUntil(now_ + std::chrono::seconds(3));
    if (machine_->Finished() || !result_.problem.empty()) return;
    disobeys = WhoDisobeys();
  }
  if (!disobeys.empty()) return Problem(disobeys);
  const protocol::RunView view = machine_->View(now_);
  std::uint32_t able = 0;
  for (const SimNode& node : nodes_) {
    if (!node.dropped && node.powered) ++able;
  }
  const bool over = view.phase == "draining" || view.phase == "closed";
  if (!over && able >= config_.min_nodes && view.phase != "active") {
    // A failure of a moment ago may just be on its way to the next round.
    RunUntil(now_ + std::chrono::seconds(90));
    const std::string phase = machine_->View(now_).phase;
    if (phase != "active" && phase != "draining" && phase != "closed") {
      Problem(Concat("it does not come back: ", phase, ", ", machine_->View(now_).waiting_for));
    }
  }
}

void Sim::CheckEnd() {
  if (!result_.problem.empty()) return;
  const auto verdict = machine_->Finished();
  const protocol::RunView view = machine_->View(now_);
  if (!verdict) {
    std::uint32_t able = 0;
    for (const SimNode& node : nodes_) able += !node.dropped && node.powered ? 1 : 0;
    if (able < config_.min_nodes && view.phase == "forming") {
      result_.ending = "waits for nodes that are gone";
      return;
    }
    Problem(Concat("it never ends: ", view.phase, ", ", view.waiting_for));
    return;
  }
  result_.ending = Concat(ToString(verdict->outcome), " ", verdict->exit_code);
  const protocol::Fence last = view.fence;
  if (verdict->outcome == protocol::Outcome::kSucceeded) {
    const auto found = rounds_.find(last);
    if (found == rounds_.end() || found->second.done.size() < found->second.world_size) {
      Problem("it succeeded, but not all ranks were done");
    }
  } else if (verdict->blame.text.empty()) {
    Problem("it ends without a reason");
  }
}

}  // namespace muster::sim
