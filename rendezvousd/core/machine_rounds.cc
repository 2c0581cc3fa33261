// Rounds: when one is sealed, prepared, started, and what ends it.

#include <algorithm>
#include <utility>

#include "common/check.h"
#include "common/text.h"
#include "rendezvousd/core/limits.h"
#include "rendezvousd/core/naming.h"
#include "rendezvousd/core/record_kinds.h"
#include "rendezvousd/core/state.h"

namespace muster::core {

using protocol::Blame;
using protocol::Cause;

// ---- forming ------------------------------------------------------------------------------------

QuorumInput Machine::State::Inputs() const {
  QuorumInput input;
  input.min_nodes = config.min_nodes;
  input.max_nodes = config.max_nodes;
  input.candidates = members.candidates();
  input.expected_missing = members.expected_missing();
  input.previous_missing = members.previous_missing();
  input.had_round = rounds_started > 0;
  input.sealed_before = round > 0;
  input.first_agent_at = first_agent_at;
  input.last_call_since = last_call_since;
  input.short_since = short_since;
  input.step_ended_at = step_ended_at;
  input.not_before = not_before;
  input.form_timeout = config.form_timeout;
  input.last_call = config.last_call;
  input.wait_node = config.wait_node;
  return input;
}

void Machine::State::Reconsider() {
  if (!Forming()) return;
  if (readmit_at && now >= *readmit_at) Readmit(kMissesMax);
  if (members.candidates() >= config.min_nodes) {
    short_since.reset();
  } else if (!short_since) {
    short_since = now;
  }
  if (TooFewAreFit()) {
    GiveUp();
    return;
  }
  switch (DecideQuorum(Inputs(), now).decision) {
    case QuorumDecision::kWait:
      if (phase == Phase::kLastCall && members.candidates() < config.min_nodes) {
        last_call_since.reset();
        SetPhase(Phase::kForming);
      }
      break;
    case QuorumDecision::kLastCall:
      if (phase == Phase::kLastCall) break;
      last_call_since = now;
      SetPhase(Phase::kLastCall);
      Tell(record::kLastCall, Explain(now));
      break;
    case QuorumDecision::kSeal:
      Seal();
      break;
    case QuorumDecision::kGiveUp:
      GiveUp();
      break;
  }
}

// Nodes said that they cannot take part, and those that are left cannot make a world: waiting is of
// no use.
bool Machine::State::TooFewAreFit() const {
  if (members.candidates() >= config.min_nodes) return false;
  std::size_t known = config.nodes.empty() ? config.max_nodes : config.nodes.size();
  known = std::max(known, members.nodes().size());
  return members.unfit() > 0 && known - members.unfit() - members.unreachable() < config.min_nodes;
}

void Machine::State::Seal() {
  if (++seals_in_a_row > limits::kSealsInARowMax) {
    GiveUp();
    return;
  }
  ++round;
  last_call_since.reset();
  not_before.reset();
  short_since.reset();
  current =
      MakeRound(Newest(), previous_nodes, config, previous_world_size, rounds_started, &members);
  current->sealed_at = now;
  current->prepare_until = now + config.prepare_timeout;
  SetPhase(Phase::kPreparing);
  Tell(record::kRoundSealed,
       Concat(Count(current->nodes.size(), "node"), ", ", Count(current->world_size, "rank"), ": ",
              ListNames(current->nodes)));
}

// ---- preparing ----------------------------------------------------------------------------------

void Machine::State::Take(Agent& agent, const protocol::Ready& ready) {
  const bool of_current =
      phase == Phase::kPreparing && agent.member >= 0 && ready.fence == current->fence;
  if (!of_current) {
    // Late, but it can: another round may count on it.
    if (!agent.left_out.empty() && ready.problem.empty()) {
      agent.left_out.clear();
      Touch(agent);
      Reconsider();
    }
    return;
  }
  Member& member = current->members[static_cast<std::size_t>(agent.member)];
  const bool first = member.assignment.first_rank == 0;
  std::string problem = Limited(ready.problem);
  if (problem.empty() && first && (ready.master_address.empty() || ready.master_port == 0)) {
    problem = "its agent named no address and port for rank 0";
  }
  if (!problem.empty()) {
    Blame blame;
    blame.cause = Cause::kAgent;
    blame.node = agent.id.key.node;
    blame.text = Concat(blame.node, " cannot take part: ", problem);
    LeaveOut(agent, std::move(problem));
    AbandonPrepare(blame);
    Reconsider();
    return;
  }
  if (first) {
    current->master_address = ready.master_address;
    current->master_port = ready.master_port;
  }
  for (const protocol::WorkerStatus& worker : ready.workers) {
    agent.last_step = std::max(agent.last_step, worker.last_step);
  }
  if (!member.ready) {
    member.ready = true;
    --current->not_ready;
  }
  TryStart();
}

void Machine::State::TryStart() {
  if (current->not_ready > 0 || current->unwell > 0) return;
  current->started_at = now;
  ++rounds_started;
  seals_in_a_row = 0;
  for (auto& [name, node] : members.nodes()) {
    if (!node.previous) continue;
    node.previous = false;
    members.Refresh(node);
  }
  previous_nodes = current->nodes;
  previous_world_size = current->world_size;
  for (const std::string& name : previous_nodes) {
    Node& node = *members.FindNode(name);
    node.previous = true;
    members.Refresh(node);
  }
  for (const Member& member : current->members) member.agent->misses = 0;
  SetPhase(Phase::kActive);
  Tell(record::kRoundStarted,
       Concat(Count(current->world_size, "rank"), " on ", Count(current->nodes.size(), "node"),
              ", cause ", ToString(last_blame.cause), ", rank 0 at ", current->master_address, ":",
              current->master_port));
}

// A prepare's time is over, for all or for those that went silent in it.
void Machine::State::CheckPrepare() {
  const bool late = now >= current->prepare_until;
  if (!late && !(current->unwell_until && now >= *current->unwell_until)) return;
  std::vector<std::string> names;
  std::size_t total = 0;
  for (Member& member : current->members) {
    const bool unwell = !member.well;
    if (!unwell && (member.ready || !late)) continue;
    ++total;
    if (names.size() < kNamesShown) {
      names.push_back(Concat(member.id.key.node, unwell ? " (silent)" : " (not ready)"));
    }
    // The silent ones do not count anyway until they are heard again.
    if (!unwell) {
      LeaveOut(*member.agent, Concat("not ready in ", Lasting(now - current->sealed_at)));
    }
  }
  Blame blame;
  blame.cause = Cause::kAgent;
  if (total == 1) blame.node = names.front().substr(0, names.front().find(' '));
  blame.text =
      Concat("not prepared in ", Lasting(now - current->sealed_at), ": ", ListNames(names, total));
  AbandonPrepare(blame);
  Reconsider();
}

void Machine::State::AbandonPrepare(const Blame& blame) {
  MUSTER_CHECK(phase == Phase::kPreparing, "only a prepared round can be abandoned");
  EndRound(blame);
  SetPhase(Phase::kForming);
}

// ---- active -------------------------------------------------------------------------------------

Member* Machine::State::MemberOf(const Agent& agent, const protocol::Fence& of) {
  if (phase != Phase::kActive || agent.member < 0 || of != current->fence) return nullptr;
  return &current->members[static_cast<std::size_t>(agent.member)];
}

void Machine::State::Take(Agent& agent, const protocol::WorkerExited& exit) {
  Member* member = MemberOf(agent, exit.fence);
  if (member == nullptr) {
    Tell(record::kWorkerExited,
         Concat("after ", ToString(exit.fence), " had ended: local ",
                DescribeExit(static_cast<std::int32_t>(exit.local_rank), agent.id.key.node, exit)),
         agent.id.key.node);
    return;
  }
  if (exit.local_rank >= member->ended.size() || member->ended[exit.local_rank]) return;
  WorkerEnded(agent, *member, exit);
}

void Machine::State::WorkerEnded(Agent& agent, Member& member, const protocol::WorkerExited& exit) {
  const std::string& node = agent.id.key.node;
  const std::int32_t rank = RankOf(member, exit.local_rank);
  member.ended[exit.local_rank] = true;
  const std::string text = DescribeExit(rank, node, exit);
  if (exit.exit_code == 0 && exit.signal == 0) {
    ++member.done;
    ++current->done;
    Tell(record::kWorkerDone, Concat("rank ", rank, " on ", node, " is done"), node, rank);
    if (current->done < current->world_size) return;
    protocol::Verdict succeeded;
    succeeded.outcome = protocol::Outcome::kSucceeded;
    BeginDrain(std::move(succeeded), false);
    return;
  }
  Tell(record::kWorkerExited, text, node, rank);
  Blame blame;
  blame.cause = ChargedCause(exit);
  blame.node = node;
  blame.rank = rank;
  blame.exit_code = exit.exit_code;
  blame.text = text;
  FailRound(blame, FailureSignature{exit.exit_code, Limited(exit.last_line)});
  Reconsider();
}

void Machine::State::Take(Agent& agent, const protocol::WorkerBroken& broken) {
  const Member* member = MemberOf(agent, broken.fence);
  if (member == nullptr || broken.local_rank >= member->ended.size()) return;
  const std::int32_t rank = RankOf(*member, broken.local_rank);
  Tell(record::kWorkerBroken, Limited(broken.reason), agent.id.key.node, rank);
  if (current->broken) return;
  current->broken = Broken{now, rank, agent.id.key.node, Limited(broken.reason)};
}

void Machine::State::CheckBroken() {
  if (step_ended_at && members.attached() == 0 && now >= *step_ended_at + kStepEndedGrace) {
    Blame blame;
    blame.cause = Cause::kAgent;
    blame.text = Concat("the agents' step ended and no agent is left: ", step_ended);
    for (auto& [key, agent] : members.agents()) {
      if (phase == Phase::kActive) Gone(agent, "its step ended", blame);
    }
    if (phase == Phase::kActive) FailRound(blame, std::nullopt);
    Reconsider();
    return;
  }
  if (!current->broken || now < current->broken->since + config.lease + kBrokenGrace) return;
  const Broken broken = *current->broken;
  std::vector<std::string> silent;
  for (const Member& member : current->members) {
    if (member.agent != nullptr && member.agent->suspect && silent.size() < kNamesShown) {
      silent.push_back(member.id.key.node);
    }
  }
  Blame blame;
  blame.cause = Cause::kNetwork;
  blame.node = silent.empty() ? broken.node : silent.front();
  blame.rank = broken.rank;
  blame.text = Concat(
      "rank ", broken.rank, " on ", broken.node, " lost its peers (", broken.reason, ") and ",
      silent.empty() ? std::string("none of them died") : Concat("silent are ", ListNames(silent)),
      " within ", Lasting(config.lease + kBrokenGrace));
  FailRound(blame, std::nullopt);
  Reconsider();
}

void Machine::State::Take(Agent& agent, const protocol::WorkerProgress& progress) {
  const Member* member = MemberOf(agent, progress.fence);
  if (member == nullptr || progress.step < 0) return;
  agent.last_step = std::max(agent.last_step, progress.step);
  if (current->progressed) return;
  current->progressed = true;
  Tell(record::kRoundProgress, Concat("step ", progress.step), agent.id.key.node,
       RankOf(*member, progress.local_rank));
}

void Machine::State::FailRound(const Blame& blame, std::optional<FailureSignature> signature) {
  MUSTER_CHECK(phase == Phase::kActive, "only a running round can fail");
  RoundFailure failure;
  failure.blame = blame;
  failure.signature = std::move(signature);
  failure.ran = now - *current->started_at;
  failure.progressed = current->progressed || failure.ran >= kRunningIsProgress;
  const Ruling ruling = policy.Rule(config, failure);
  Tell(record::kRoundEnded, blame.text, blame.node, blame.rank);
  if (!ruling.again) {
    BeginDrain(ruling.verdict, false);
    last_blame = blame;
    return;
  }
  EndRound(blame);
  SetPhase(Phase::kForming);
  if (ruling.pause > Duration::zero()) not_before = now + ruling.pause;
  // Told at once, whatever is decided next: peers of a dead rank hang until they know.
  FlushOrders();
}

// The round is over; its keys, barriers and ranks are void.
void Machine::State::EndRound(const Blame& blame) {
  const bool ran = current->Active();
  for (const Member& member : current->members) {
    if (member.agent != nullptr) member.agent->member = -1;
  }
  keys.EndRound(current->fence, &effects);
  barriers.EndRound(current->fence, &effects);
  current.reset();
  last_blame = blame;
  orders_changed = true;
  if (!ran) return;
  for (auto& [key, agent] : members.agents()) agent.misses = 0;
  Readmit(kMissesMax);
}

}  // namespace muster::core
