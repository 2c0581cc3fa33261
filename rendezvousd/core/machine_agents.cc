// Who is here: hello, broken streams, the detector's verdicts, goodbye.

#include <algorithm>
#include <utility>

#include "common/text.h"
#include "rendezvousd/core/exit_codes.h"
#include "rendezvousd/core/limits.h"
#include "rendezvousd/core/naming.h"
#include "rendezvousd/core/record_kinds.h"
#include "rendezvousd/core/state.h"

namespace muster::core {

using protocol::AgentId;
using protocol::Blame;
using protocol::Cause;

void Machine::State::On(const AgentMessage& event) {
  const protocol::Upward& message = event.message;
  if (const auto* hello = std::get_if<protocol::Hello>(&message.body)) {
    Take(message.agent, *hello);
    return;
  }
  Agent* agent = members.FindExact(message.agent);
  if (agent == nullptr) {
    const Agent* other = members.Find(message.agent.key);
    const bool fenced = other != nullptr && std::count(other->fenced.begin(), other->fenced.end(),
                                                       message.agent.incarnation) > 0;
    effects.emplace_back(
        Dismiss{message.agent, fenced ? Aborted("this incarnation was replaced by a new one")
                                      : Unavailable("say hello first")});
    return;
  }
  if (message.number != 0) {
    effects.emplace_back(SendAcknowledge{agent->id, std::max(agent->last_number, message.number)});
    if (message.number <= agent->last_number) return;
    agent->last_number = message.number;
  }
  const auto take = [&](const auto& body) {
    using Body = std::decay_t<decltype(body)>;
    if constexpr (!std::is_same_v<Body, protocol::Hello> && !std::is_same_v<Body, protocol::Beat> &&
                  !std::is_same_v<Body, protocol::ProbeAnswer>) {
      Take(*agent, body);
    }
  };
  std::visit(take, message.body);
}

// ---- hello --------------------------------------------------------------------------------------

Status Machine::State::Admit(const AgentId& id, const protocol::Hello& hello) {
  if (hello.version != config.version) {
    return FailedPrecondition(Concat("agent ", ToString(id.key), " is of version ",
                                     Quote(hello.version), ", the daemon of ",
                                     Quote(config.version), "; both must be the same program"));
  }
  if (hello.run_id != config.run_id) {
    return FailedPrecondition(Concat("agent ", ToString(id.key), " is of run ", Quote(hello.run_id),
                                     ", the daemon of run ", Quote(config.run_id)));
  }
  if (hello.fence.attempt < config.attempt) {
    return FailedPrecondition(Concat("agent ", ToString(id.key), " is of attempt ",
                                     hello.fence.attempt, ", but attempt ", config.attempt,
                                     " has begun"));
  }
  if (hello.slots < config.workers_per_agent) {
    return InvalidArgument(
        Concat("agent ", ToString(id.key), " can start ", Count(hello.slots, "worker"),
               ", but each agent of this run is to start ", config.workers_per_agent));
  }
  const Agent* known = members.Find(id.key);
  if (known != nullptr && std::count(known->fenced.begin(), known->fenced.end(), id.incarnation)) {
    return Aborted(Concat("agent ", ToString(id.key), " was replaced by a new incarnation"));
  }
  const Node* node = members.FindNode(id.key.node);
  if (node != nullptr && node->dropping == Dropping::kDone) {
    return FailedPrecondition(
        Concat("node ", id.key.node, " was found dead and taken out of the job"));
  }
  if (known == nullptr && members.Full()) {
    return ResourceExhausted(
        Concat(limits::kAgentsMax, " agents attend; that is the limit of one run"));
  }
  return OkStatus();
}

void Machine::State::Take(const AgentId& id, const protocol::Hello& hello) {
  if (hello.fence.attempt > config.attempt && hello.run_id == config.run_id) {
    // Not final for the agent: its own daemon is elsewhere.
    effects.emplace_back(Dismiss{
        id, Unavailable(Concat("this daemon is of attempt ", config.attempt,
                               " and ends; the agent is of attempt ", hello.fence.attempt))});
    if (Over()) return;
    protocol::Verdict superseded;
    superseded.outcome = protocol::Outcome::kGoesOnLater;
    superseded.exit_code = kExitGoesOnLater;
    superseded.blame.node = id.key.node;
    superseded.blame.text =
        Concat("attempt ", hello.fence.attempt, " has begun: an agent of it on ", id.key.node,
               " said hello to the daemon of attempt ", config.attempt);
    BeginDrain(std::move(superseded), false);
    return;
  }
  if (Status refused = Admit(id, hello); !refused.ok()) {
    if (Node* node = members.FindNode(id.key.node)) node->refused = refused.message();
    Tell(record::kAgentRefused, refused.message(), id.key.node);
    effects.emplace_back(Dismiss{id, std::move(refused)});
    return;
  }
  Agent* known = members.Find(id.key);
  const bool returned = known != nullptr && known->id.incarnation == id.incarnation &&
                        known->presence != Presence::kGone;
  if (known != nullptr && known->id.incarnation != id.incarnation &&
      known->presence != Presence::kGone) {
    const std::string why = Concat("the agent on ", id.key.node, " (", ToString(id.key),
                                   ") was started anew; its workers ended with the old one");
    Tell(record::kAgentFenced, why, id.key.node);
    effects.emplace_back(Dismiss{known->id, Aborted("a new incarnation of this agent said hello")});
    Blame blame;
    blame.cause = Cause::kAgent;
    blame.node = id.key.node;
    blame.text = why;
    Gone(*known, "replaced by a new incarnation", blame);
  }
  // A member whose workers are all done may be replaced without harm to the round.
  if (known != nullptr && known->id.incarnation != id.incarnation && known->member >= 0) {
    current->members[static_cast<std::size_t>(known->member)].agent = nullptr;
    known->member = -1;
  }
  Agent& agent = members.Attend(id, hello, now);
  wishes.Withdraw(protocol::WishKind::kStartAgent, id.key.node);
  if (!first_agent_at) first_agent_at = now;
  Tell(returned ? record::kAgentReturned : record::kAgentJoined, ToString(id.key), id.key.node);
  if (!agent.unfit.empty() && !returned) {
    Tell(record::kAgentLeftOut, Concat(ToString(id.key), ": ", agent.unfit), id.key.node);
  }
  Touch(agent);
  if (returned) TakeWorkers(agent, hello);
  // The present order, unless the change sends it anyway.
  agent.sent = SentOrder{};
  Reconsider();
  if (phase == Phase::kPreparing) TryStart();
  if (orders_changed || agent.presence != Presence::kAttached) return;
  if (std::optional<protocol::Order> order = OrderFor(agent, now)) {
    agent.sent = {.any = true,
                  .kind = order->kind,
                  .fence = order->fence,
                  .exit_code = order->verdict.exit_code};
    effects.emplace_back(SendOrder{agent.id, std::move(*order)});
  }
}

void Machine::State::TakeWorkers(Agent& agent, const protocol::Hello& hello) {
  constexpr std::int32_t kSignalBase = 128;
  constexpr std::int32_t kSignalMax = 64;
  for (const protocol::WorkerStatus& worker : hello.workers) {
    Member* member = MemberOf(agent, worker.fence);
    if (member == nullptr || worker.local_rank >= member->ended.size()) continue;
    agent.last_step = std::max(agent.last_step, worker.last_step);
    if (worker.last_step >= 0) current->progressed = true;
    if (worker.alive || member->ended[worker.local_rank]) continue;
    protocol::WorkerExited exit;
    exit.fence = worker.fence;
    exit.local_rank = worker.local_rank;
    exit.pid = worker.pid;
    exit.exit_code = worker.exit_code;
    const std::int32_t signal = worker.exit_code - kSignalBase;
    if (signal > 0 && signal <= kSignalMax) exit.signal = signal;
    WorkerEnded(agent, *member, exit);
    if (phase != Phase::kActive) return;
  }
}

// ---- the detector -------------------------------------------------------------------------------

void Machine::State::On(const AgentDetached& event) {
  Agent* agent = members.FindExact(event.agent);
  if (agent == nullptr || agent->presence != Presence::kAttached) return;
  agent->presence = Presence::kDetached;
  agent->since = now;
  agent->sent = SentOrder{};
  Touch(*agent);
  Reconsider();
}

void Machine::State::On(const AgentSuspect& event) {
  Agent* agent = members.FindExact(event.agent);
  if (agent == nullptr || agent->presence == Presence::kGone || agent->suspect) return;
  agent->suspect = true;
  agent->since = now;
  agent->why = Limited(event.reason);
  Tell(record::kAgentSuspect, Concat(ToString(agent->id.key), ": ", agent->why),
       agent->id.key.node);
  Touch(*agent);
  Reconsider();
}

void Machine::State::On(const AgentBack& event) {
  Agent* agent = members.FindExact(event.agent);
  if (agent == nullptr || agent->presence == Presence::kGone || !agent->suspect) return;
  agent->suspect = false;
  agent->since = now;
  agent->why.clear();
  Tell(record::kAgentBack, ToString(agent->id.key), agent->id.key.node);
  Touch(*agent);
  Reconsider();
  if (phase == Phase::kPreparing) TryStart();
}

void Machine::State::On(const AgentDead& event) {
  Agent* agent = members.FindExact(event.agent);
  if (agent == nullptr || agent->presence == Presence::kGone) return;
  const std::string evidence = Limited(event.evidence);
  Tell(record::kAgentDead, Concat(ToString(agent->id.key), ": ", evidence), agent->id.key.node);
  // If it lives after all, it says hello anew and is told where the world is.
  effects.emplace_back(Dismiss{agent->id, Unavailable(Concat("taken for dead: ", evidence))});
  Blame blame;
  blame.cause = event.cause == Cause::kNode ? Cause::kNode : Cause::kAgent;
  blame.node = agent->id.key.node;
  blame.text = Concat(blame.cause == Cause::kNode ? "node " : "the agent on ", blame.node,
                      " is dead: ", evidence);
  Node& node = *agent->node;
  if (blame.cause == Cause::kNode) {
    node.down = true;
    WishDrop(node, evidence);
  }
  Gone(*agent, Concat("dead: ", evidence), blame);
  if (blame.cause == Cause::kAgent) WishNewAgent(node, evidence);
  Reconsider();
  CheckDrain();
}

void Machine::State::WishAbout(const Node& node, protocol::WishKind kind,
                               const std::string& reason) {
  protocol::Wish wish;
  wish.kind = kind;
  wish.nodes = {node.name};
  wish.reason = reason;
  wishes.Add(std::move(wish));
}

void Machine::State::WishNewAgent(Node& node, const std::string& evidence) {
  if (node.living > 0 || node.Unreachable() || Over()) return;
  if (node.agent_starts >= limits::kAgentStartsMax) {
    Tell(record::kWish,
         Concat("no new agent on ", node.name, ": ", limits::kAgentStartsMax,
                " were started there before"),
         node.name);
    return;
  }
  ++node.agent_starts;
  WishAbout(node, protocol::WishKind::kStartAgent, evidence);
  Tell(record::kWish, Concat("start a new agent on ", node.name, ": ", evidence), node.name);
}

void Machine::State::WishDrop(Node& node, const std::string& evidence) {
  if (node.dropping != Dropping::kNo || node.name == config.batch_node || Over()) return;
  node.dropping = Dropping::kAsked;
  WishAbout(node, protocol::WishKind::kDropNodes, evidence);
  Tell(record::kWish, Concat("take ", node.name, " out of the job: ", evidence), node.name);
}

void Machine::State::Take(Agent& agent, const protocol::Goodbye& goodbye) {
  const std::string reason = Limited(goodbye.reason);
  Tell(record::kAgentLeft, Concat(ToString(agent.id.key), ": ", reason), agent.id.key.node);
  Blame blame;
  blame.cause = Cause::kAgent;
  blame.node = agent.id.key.node;
  blame.text = Concat("the agent on ", blame.node, " was told to end: ", reason);
  Gone(agent, Concat("left: ", reason), blame);
  Reconsider();
  CheckDrain();
}

// ---- what follows -------------------------------------------------------------------------------

void Machine::State::Gone(Agent& agent, std::string why, const Blame& blame) {
  if (agent.presence == Presence::kGone) return;
  agent.presence = Presence::kGone;
  agent.suspect = false;
  agent.since = now;
  agent.why = std::move(why);
  agent.sent = SentOrder{};
  agent.node->lost = true;
  members.Refresh(*agent.node);
  if (agent.member < 0) return;
  if (phase == Phase::kPreparing) {
    AbandonPrepare(blame);
  } else if (phase == Phase::kActive &&
             !current->members[static_cast<std::size_t>(agent.member)].AllDone()) {
    FailRound(blame, std::nullopt);
  }
}

void Machine::State::LeaveOut(Agent& agent, std::string why) {
  Tell(record::kAgentLeftOut, Concat(ToString(agent.id.key), ": ", why), agent.id.key.node);
  agent.left_out = std::move(why);
  // It may have been slow once: it is asked once more, after the others had their chance.
  if (++agent.misses < kMissesMax) readmit_at = now + config.lease;
  members.Refresh(*agent.node);
}

void Machine::State::Readmit(std::uint32_t misses_below) {
  readmit_at.reset();
  for (auto& [key, agent] : members.agents()) {
    if (agent.left_out.empty() || agent.misses >= misses_below) continue;
    agent.left_out.clear();
    Touch(agent);
  }
}

void Machine::State::Touch(Agent& agent) {
  members.Refresh(*agent.node);
  if (phase != Phase::kPreparing || agent.member < 0) return;
  Member& member = current->members[static_cast<std::size_t>(agent.member)];
  const bool well = agent.Well();
  if (member.well == well) return;
  member.well = well;
  current->unwell += well ? 0U : 1U;
  current->unwell -= well ? 1U : 0U;
  if (current->unwell == 0) {
    current->unwell_until.reset();
  } else if (!current->unwell_until) {
    // One more lease to come back: a broken stream is no reason to seal anew for all.
    current->unwell_until = now + config.lease;
  }
}

void Machine::State::On(const Restarted&) {
  for (auto& [key, agent] : members.agents()) {
    if (agent.presence == Presence::kGone) continue;
    agent.presence = Presence::kDetached;
    agent.suspect = false;
    agent.since = now;
    agent.why.clear();
    agent.sent = SentOrder{};
    Touch(agent);
  }
  keys.ForgetCallers();
  barriers.ForgetCallers();
  Tell(record::kDaemonRestarted, "its agents attend again");
  // Nobody could be heard while the daemon was away: every wait starts anew.
  if (phase == Phase::kPreparing) {
    current->prepare_until = now + config.prepare_timeout;
    current->unwell_until.reset();
  }
  if (current && current->broken) current->broken->since = now;
  if (last_call_since) last_call_since = now;
  if (short_since) short_since = now;
  if (step_ended_at) step_ended_at = now;
  if (phase == Phase::kDraining) drain_since = now;
  if (first_agent_at && round == 0) {
    first_agent_at = std::max(*first_agent_at, now + config.lease * 2 - config.form_timeout);
  }
  Reconsider();
}

}  // namespace muster::core
