// What goes wrong, and how it is mended.

#include <algorithm>

#include "common/text.h"
#include "tests/sim/sim.h"

namespace muster::sim {

std::shared_ptr<SimAgent> Sim::LivingAgent(const SimNode& node, std::uint32_t task) const {
  for (const auto& agent : agents_) {
    if (agent->alive && agent->node == &node && agent->id.key.task_id == task) return agent;
  }
  return nullptr;
}

void Sim::ChaosSecond() {
  if (!chaos_) return;
  for (SimNode& node : nodes_) NodeFaults(node);
  WorldFaults();
  At(std::chrono::seconds(1), [this] { ChaosSecond(); });
}

void Sim::NodeFaults(SimNode& node) {
  const auto for_a_while = [this, &node](bool SimNode::*flag, const char* what) {
    if (node.*flag) return;
    Trace(Concat("fault: ", node.name, " ", what));
    node.*flag = true;
    At(Seconds(0.5, 40), [&node, flag] { node.*flag = false; });
  };
  if (random_.Chance(faults_.island)) for_a_while(&SimNode::island, "is an island");
  if (random_.Chance(faults_.cut_up)) for_a_while(&SimNode::cut_up, "is not heard");
  if (random_.Chance(faults_.cut_down)) for_a_while(&SimNode::cut_down, "hears nothing");
  if (random_.Chance(faults_.power_off) && node.powered) {
    Trace(Concat("fault: ", node.name, " loses power"));
    node.powered = false;
    for (const auto& agent : agents_) {
      if (agent->node == &node) EndAgent(agent, false);
    }
    if (random_.Chance(0.5)) {
      At(Seconds(20, 60), [this, &node] {
        if (node.powered || !daemon_up_) return;
        slurm_dead_.push_back(node.name);
        protocol::HostFacts facts{config_.can_requeue, slurm_dead_, {}, ""};
        Step(core::HostMessage{facts});
        Detected(detector_->OnSlurmDead(slurm_dead_, now_));
      });
    }
    return;
  }
  const std::uint32_t agents =
      node.index < config_.agents_per_node.size() ? config_.agents_per_node[node.index] : 1;
  for (std::uint32_t task = 0; task < agents; ++task) {
    const auto agent = LivingAgent(node, task);
    if (!agent) {
      // Its keeper starts a new one.
      const bool over = machine_->View(now_).phase == "closed";
      if (!over && random_.Chance(0.3)) StartAgent(node, task);
      continue;
    }
    if (random_.Chance(faults_.agent_crash)) EndAgent(agent, true);
    if (random_.Chance(faults_.agent_twin)) StartAgent(node, task);
    if (random_.Chance(faults_.agent_term) && !agent->goodbye_said) {
      agent->goodbye_said = true;
      for (SimWorker& worker : agent->workers) {
        if (worker.alive) worker.code = -1;
        worker.alive = false;
      }
      Say(agent, protocol::Goodbye{"terminated"});
    }
    if (random_.Chance(faults_.agent_pause) && !agent->paused) {
      Trace(Concat("fault: ", ToString(agent->id.key), " is stopped"));
      agent->paused = true;
      At(Seconds(0.5, 50), [agent] { agent->paused = false; });
    }
    if (random_.Chance(faults_.stream_reset) && agent->connection) {
      const auto connection = agent->connection;
      Break(connection, true);
      Disconnected(agent, Unavailable("reset"));
    }
  }
}

void Sim::WorldFaults() {
  if (random_.Chance(faults_.daemon_crash)) DaemonCrash();
  if (random_.Chance(faults_.loop_late)) loop_away_until_ = now_ + Seconds(1, 12);
  if (random_.Chance(faults_.late_node) && nodes_.size() < 10) {
    nodes_.push_back(
        {.name = Concat("x", nodes_.size()), .index = static_cast<std::uint32_t>(nodes_.size())});
    StartAgent(nodes_.back(), 0);
  }
  if (!daemon_up_ || now_ < loop_away_until_) return;
  if (random_.Chance(faults_.step_ends)) {
    Step(core::HostMessage{
        protocol::HostFacts{config_.can_requeue, slurm_dead_, {}, "srun: killed"}});
    At(Seconds(1, 30), [this] {
      if (!daemon_up_) return;
      Step(core::HostMessage{protocol::HostFacts{config_.can_requeue, slurm_dead_, {}, ""}});
    });
  }
  if (random_.Chance(faults_.operator_restart)) {
    Step(core::HostMessage{protocol::OperatorRequest{protocol::OperatorAction::kRestart, "chaos"}});
  }
  if (random_.Chance(faults_.operator_cancel)) {
    Step(core::HostMessage{protocol::OperatorRequest{protocol::OperatorAction::kCancel, "chaos"}});
  }
}

// All faults end; every node that is still in the job is there with all its agents.
void Sim::Heal() {
  Trace("everything heals");
  chaos_ = false;
  faults_.duplicate = 0;
  loop_away_until_ = now_;
  if (!daemon_up_) DaemonRestart();
  slurm_dead_.clear();
  Step(core::HostMessage{protocol::HostFacts{config_.can_requeue, {}, {}, ""}});
  for (const auto& agent : agents_) agent->paused = false;
  for (SimNode& node : nodes_) {
    node.powered = true;
    node.island = node.cut_up = node.cut_down = false;
  }
  StartMissing();
  // What was still on its way may have ended one more: a late goodbye, a late hello that fenced.
  At(std::chrono::seconds(10), [this] { StartMissing(); });
}

void Sim::StartMissing() {
  for (SimNode& node : nodes_) {
    const std::uint32_t agents =
        node.index < config_.agents_per_node.size() ? config_.agents_per_node[node.index] : 1;
    for (std::uint32_t task = 0; task < agents; ++task) {
      if (!LivingAgent(node, task)) StartAgent(node, task);
    }
  }
}

}  // namespace muster::sim
