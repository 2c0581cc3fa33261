// The end: who decides it, how agents are seen off, what the host is asked to do.

#include <algorithm>
#include <utility>

#include "common/check.h"
#include "common/text.h"
#include "rendezvousd/core/exit_codes.h"
#include "rendezvousd/core/limits.h"
#include "rendezvousd/core/naming.h"
#include "rendezvousd/core/record_kinds.h"
#include "rendezvousd/core/request_kinds.h"
#include "rendezvousd/core/state.h"

namespace muster::core {
namespace {

// A requeue that a program asked for is refused: 1. One because the world cannot form: that.
std::int32_t RefusedExitCode(const protocol::Blame& blame) {
  if (blame.exit_code != 0) return RunExitCode(blame.exit_code);
  return blame.cause == protocol::Cause::kOperator ? 1 : kExitCouldNotForm;
}

}  // namespace

using protocol::Blame;
using protocol::Cause;
using protocol::Outcome;
using protocol::Verdict;

const Agent* Machine::State::FirstUnfit(std::string* nodes) const {
  const Agent* first = nullptr;
  std::vector<std::string> names;
  std::size_t total = 0;
  for (const auto& [name, node] : members.nodes()) {
    if (!node.unfit) continue;
    if (++total <= kNamesShown) names.push_back(name);
    for (const Agent* agent : node.agents) {
      if (first == nullptr && !agent->unfit.empty()) first = agent;
    }
  }
  *nodes = ListNames(names, total);
  return first;
}

// The world did not come together, for the first time or again.
void Machine::State::GiveUp() {
  std::string unfit_nodes;
  const Agent* const unfit = FirstUnfit(&unfit_nodes);
  if (unfit != nullptr && rounds_started == 0) {
    // What is wrong there is so in a requeued job too, and its code says what.
    Verdict failed;
    failed.outcome = Outcome::kFailed;
    const bool valid = unfit->unfit_code > 0 && unfit->unfit_code <= 255;
    failed.exit_code = valid ? unfit->unfit_code : kExitCouldNotForm;
    failed.blame.cause = Cause::kAgent;
    failed.blame.node = unfit->id.key.node;
    failed.blame.text = Concat(unfit_nodes, " cannot take part: ", unfit->unfit);
    BeginDrain(std::move(failed), false);
    return;
  }
  Verdict give_up;
  give_up.blame = last_blame;
  std::string why = Explain(now);
  if (seals_in_a_row > limits::kSealsInARowMax) {
    why =
        Concat(limits::kSealsInARowMax, " rounds in a row were sealed and none could start; ", why);
  }
  if (!step_ended.empty()) why += Concat("; the agents' step ended: ", step_ended);
  if (last_blame.text.empty()) {
    give_up.blame.text = Concat("the world did not come together: ", why);
  } else {
    give_up.blame.text = Concat(last_blame.text, "; the world did not come together again: ", why);
  }
  const bool requeue = round > 0 && can_requeue;
  if (requeue) requeue_without = UnfitNodes();
  give_up.outcome = requeue ? Outcome::kGoesOnLater : Outcome::kFailed;
  give_up.exit_code = requeue ? kExitGoesOnLater : kExitCouldNotForm;
  BeginDrain(std::move(give_up), requeue);
}

// Nodes that a requeue should keep away from: dead, silent, or unable to prepare.
std::vector<std::string> Machine::State::UnfitNodes() const {
  std::vector<std::string> names;
  for (const auto& [name, node] : members.nodes()) {
    const bool unfit = std::any_of(node.agents.begin(), node.agents.end(), [](const Agent* agent) {
      return agent->suspect || !agent->left_out.empty() || !agent->unfit.empty();
    });
    if (node.Unreachable() || node.lost || unfit) names.push_back(name);
  }
  return names;
}

void Machine::State::BeginDrain(Verdict verdict_now, bool then_requeue) {
  MUSTER_CHECK(!Over(), "a run ends once");
  verdict = std::move(verdict_now);
  requeue_after_drain = then_requeue;
  if (current) {
    EndRound(verdict.outcome == Outcome::kSucceeded ? last_blame : verdict.blame);
  }
  drain_since = now;
  wishes.Withdraw(protocol::WishKind::kStartAgent);
  SetPhase(Phase::kDraining);
  Tell(record::kDraining,
       Concat(ToString(verdict.outcome), ", exit code ", verdict.exit_code,
              verdict.blame.text.empty() ? "" : ": ", verdict.blame.text),
       verdict.blame.node, verdict.blame.rank);
  CheckDrain();
}

void Machine::State::CheckDrain() {
  if (phase != Phase::kDraining || requeue_wish != 0) return;
  const bool quiet_over = now >= drain_since + kGoodbyeGrace;
  const bool all_over = now >= drain_since + kGoodbyeGrace + config.stop_grace;
  if (quiet_over && members.living() > 0) {
    for (auto& [key, agent] : members.agents()) {
      if (agent.presence == Presence::kGone) continue;
      if (!all_over && agent.presence == Presence::kAttached && !agent.suspect) continue;
      Gone(agent, Concat("given up: no goodbye in ", Lasting(now - drain_since)), {});
      Tell(record::kAgentLeft, Concat(ToString(key), ": ", agent.why), key.node);
    }
  }
  if (members.living() > 0) return;
  if (requeue_after_drain) {
    AskRequeue();
  } else {
    Close();
  }
}

void Machine::State::AskRequeue() {
  protocol::Wish wish;
  wish.kind = protocol::WishKind::kRequeue;
  wish.verdict = verdict;
  wish.reason = verdict.blame.text;
  wish.nodes = requeue_without;
  Tell(record::kWish, Concat("requeue", wish.nodes.empty() ? "" : " without ",
                             ListNames(wish.nodes), ": ", wish.reason));
  requeue_wish = wishes.Add(std::move(wish));
}

void Machine::State::Close() {
  SetPhase(Phase::kClosed);
  protocol::Wish wish;
  wish.kind = protocol::WishKind::kFinish;
  wish.verdict = verdict;
  wish.reason = verdict.blame.text;
  wishes.Add(std::move(wish));
  Tell(record::kRunClosed, Concat(ToString(verdict.outcome), ", exit code ", verdict.exit_code));
}

// ---- the host -----------------------------------------------------------------------------------

void Machine::State::On(const HostMessage& event) {
  std::visit([this](const auto& body) { Take(body); }, event.message);
}

void Machine::State::Take(const protocol::HostFacts& facts) {
  can_requeue = facts.can_requeue;
  for (auto& [name, node] : members.nodes()) {
    const bool down =
        std::find(facts.dead_nodes.begin(), facts.dead_nodes.end(), name) != facts.dead_nodes.end();
    if (down == node.slurm_down) continue;
    node.slurm_down = down;
    Tell(record::kHostFacts, down ? "Slurm says that it is down" : "Slurm says that it is up again",
         name);
    members.Refresh(node);
  }
  starting_nodes = facts.starting_nodes;
  if (facts.agents_step_ended != step_ended) {
    step_ended = Limited(facts.agents_step_ended);
    if (!step_ended.empty()) {
      step_ended_at = now;
      Tell(record::kHostFacts, Concat("the agents' step ended: ", step_ended));
    }
  }
  if (step_ended.empty()) step_ended_at.reset();
  Reconsider();
}

void Machine::State::Dropped(const std::string& name, bool done) {
  Node* node = members.FindNode(name);
  if (node == nullptr) return;
  node->dropping = done ? Dropping::kDone : Dropping::kNo;
  members.Refresh(*node);
  if (!done) return;
  // One that came back in the meantime is too late: Slurm ends it.
  Blame blame;
  blame.cause = Cause::kNode;
  blame.node = name;
  blame.text = Concat("node ", name, " was found dead and taken out of the job");
  for (Agent* agent : node->agents) {
    if (agent->presence == Presence::kGone) continue;
    effects.emplace_back(Dismiss{agent->id, FailedPrecondition(blame.text)});
    Gone(*agent, "its node was taken out of the job", blame);
  }
}

void Machine::State::Take(const protocol::WishAnswer& answer) {
  const std::optional<protocol::Wish> wish = wishes.Answer(answer);
  if (!wish) return;
  const bool done = answer.state == protocol::WishState::kDone;
  Tell(record::kWishAnswered, Concat(done ? "done" : "refused", answer.reason.empty() ? "" : ": ",
                                     Limited(answer.reason)));
  switch (wish->kind) {
    case protocol::WishKind::kDropNodes:
      for (const std::string& name : wish->nodes) Dropped(name, done);
      Reconsider();
      CheckDrain();
      break;
    case protocol::WishKind::kRequeue:
      if (wish->id != requeue_wish) break;
      requeue_wish = 0;
      if (!done) {
        verdict.outcome = Outcome::kFailed;
        verdict.exit_code = RefusedExitCode(verdict.blame);
        verdict.blame.text += Concat("; the requeue was refused: ", Limited(answer.reason));
      }
      requeue_after_drain = false;
      Close();
      break;
    case protocol::WishKind::kStartAgent:  // its hello says whether it came
    case protocol::WishKind::kFinish:
      break;
  }
}

// ---- people and programs ------------------------------------------------------------------------

void Machine::State::Stop(const Blame& blame) {
  Verdict stopped;
  stopped.outcome = Outcome::kStopped;
  stopped.exit_code = kExitStopped;
  stopped.blame = blame;
  if (!Over()) {
    BeginDrain(std::move(stopped), false);
    return;
  }
  // A requeue that was only planned or asked for is called off: a person's word is the last one.
  if (phase != Phase::kDraining || !requeue_after_drain) return;
  verdict = std::move(stopped);
  requeue_after_drain = false;
  requeue_wish = 0;
  wishes.Withdraw(protocol::WishKind::kRequeue);
  orders_changed = true;
  CheckDrain();
}

void Machine::State::Take(const protocol::OperatorRequest& request) {
  const std::string reason = Limited(request.reason);
  Blame blame;
  blame.cause = Cause::kOperator;
  switch (request.action) {
    case protocol::OperatorAction::kStop:
    case protocol::OperatorAction::kCancel:
      blame.text = Concat("an operator ended the run: ", reason);
      Tell(record::kOperatorRequest, blame.text);
      Stop(blame);
      break;
    case protocol::OperatorAction::kRestart:
      blame.text = Concat("an operator restarted the round: ", reason);
      Tell(record::kOperatorRequest, blame.text);
      if (phase == Phase::kActive) {
        FailRound(blame, std::nullopt);
      } else if (phase == Phase::kPreparing) {
        AbandonPrepare(blame);
      }
      Reconsider();
      break;
  }
}

void Machine::State::Take(Agent& agent, const protocol::WorkerRequest& request) {
  const Member* member = MemberOf(agent, request.fence);
  if (member == nullptr || request.local_rank >= member->ended.size()) return;
  const std::int32_t rank = RankOf(*member, request.local_rank);
  const std::string reason = Limited(request.reason);
  const std::string who = Concat("rank ", rank, " on ", agent.id.key.node);
  Blame blame;
  blame.node = agent.id.key.node;
  blame.rank = rank;
  blame.cause = Cause::kOperator;
  if (request.kind == kRequestRequeue) {
    blame.text = Concat(who, " asked for a requeue: ", reason);
    if (!can_requeue) blame.text += "; refused, the job cannot be requeued";
    Tell(record::kWorkerRequest, blame.text, agent.id.key.node, rank);
    if (!can_requeue) return;
    Verdict later;
    later.outcome = Outcome::kGoesOnLater;
    later.exit_code = kExitGoesOnLater;
    later.blame = blame;
    BeginDrain(std::move(later), true);
  } else if (request.kind == kRequestStop) {
    blame.text = Concat(who, " asked to stop the run: ", reason);
    Tell(record::kWorkerRequest, blame.text, agent.id.key.node, rank);
    Stop(blame);
  } else if (request.kind == kRequestDone) {
    // Noted: the run ends when all its ranks have ended with 0.
    Tell(record::kWorkerRequest, Concat(who, " says that the run is done: ", reason),
         agent.id.key.node, rank);
  }
}

}  // namespace muster::core
