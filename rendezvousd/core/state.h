#pragma once

// The machine's state and its steps; private to the core. One method a fact that comes in, each in
// the file of its subject: machine.cc (dispatch, orders), machine_agents.cc (who is here),
// machine_rounds.cc (form, prepare, run, end), machine_close.cc (drain, requeue, operator),
// machine_calls.cc (keys, barriers), view.cc, invariants.cc.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rendezvousd/core/barriers.h"
#include "rendezvousd/core/keys.h"
#include "rendezvousd/core/machine.h"
#include "rendezvousd/core/membership.h"
#include "rendezvousd/core/phase.h"
#include "rendezvousd/core/quorum.h"
#include "rendezvousd/core/restart_policy.h"
#include "rendezvousd/core/roster.h"
#include "rendezvousd/core/wishes.h"

namespace muster::core {

// Agents that are silent or away get this long to say goodbye once the run closes; the others have
// the grace of their workers besides.
inline constexpr Duration kGoodbyeGrace = std::chrono::seconds(10);
// A broken communicator without a death is a network fault after one lease and this.
inline constexpr Duration kBrokenGrace = std::chrono::seconds(2);

// Left out of so many prepares since a round ran, an agent is not asked again by itself.
inline constexpr std::uint32_t kMissesMax = 2;

struct Machine::State {
  explicit State(protocol::Config configuration);

  // ---- what comes in (machine.cc dispatches)
  void On(const AgentMessage& event);
  void On(const AgentDetached& event);
  void On(const AgentSuspect& event);
  void On(const AgentBack& event);
  void On(const AgentDead& event);
  void On(const KeyCall& event);
  void On(const BarrierCall& event);
  void On(const CallExpired& event);
  void On(const HostMessage& event);
  void On(const DeadlinePassed& event);
  void On(const Restarted& event);

  // Messages of agents.
  void Take(const protocol::AgentId& id, const protocol::Hello& hello);
  void Take(Agent& agent, const protocol::Ready& ready);
  void Take(Agent& agent, const protocol::WorkerExited& exit);
  void Take(Agent& agent, const protocol::WorkerBroken& broken);
  void Take(Agent& agent, const protocol::WorkerProgress& progress);
  void Take(Agent& agent, const protocol::WorkerRequest& request);
  void Take(Agent& agent, const protocol::Goodbye& goodbye);
  // Messages of the host.
  void Take(const protocol::HostFacts& facts);
  void Take(const protocol::WishAnswer& answer);
  void Take(const protocol::OperatorRequest& request);

  // ---- membership
  Status Admit(const protocol::AgentId& id, const protocol::Hello& hello);
  void TakeWorkers(Agent& agent, const protocol::Hello& hello);
  // After any change of an agent: counts, readiness.
  void Touch(Agent& agent);
  // The agent is dead or left: out of the counts, and out of the round with this blame.
  void Gone(Agent& agent, std::string why, const protocol::Blame& blame);
  void LeaveOut(Agent& agent, std::string why);
  // Agents that were left out fewer times than this may take part again.
  void Readmit(std::uint32_t misses_below);
  void WishAbout(const Node& node, protocol::WishKind kind, const std::string& reason);
  void WishDrop(Node& node, const std::string& evidence);
  // The node lives, its last agent does not.
  void WishNewAgent(Node& node, const std::string& evidence);

  // ---- rounds
  QuorumInput Inputs() const;
  void Reconsider();
  bool TooFewAreFit() const;
  void Seal();
  void TryStart();
  void CheckPrepare();
  void AbandonPrepare(const protocol::Blame& blame);
  void FailRound(const protocol::Blame& blame, std::optional<FailureSignature> signature);
  void EndRound(const protocol::Blame& blame);
  void CheckBroken();
  // The member of the running round, null if the agent is none or the fence is another.
  Member* MemberOf(const Agent& agent, const protocol::Fence& of);
  void WorkerEnded(Agent& agent, Member& member, const protocol::WorkerExited& exit);
  // The first few nodes that are waited for, each with what is known of it; gives their number.
  std::size_t Missing(std::vector<std::string>* names) const;
  std::string Explain(TimePoint at) const;
  std::string WaitingFor(TimePoint at) const;

  // ---- the end
  void GiveUp();
  // An agent that cannot take part, null if all can; `nodes` names all such nodes.
  const Agent* FirstUnfit(std::string* nodes) const;
  void BeginDrain(protocol::Verdict verdict_now, bool then_requeue);
  void CheckDrain();
  void AskRequeue();
  std::vector<std::string> UnfitNodes() const;
  void Dropped(const std::string& name, bool done);
  void Close();
  void Stop(const protocol::Blame& blame);

  // ---- shared
  void SetPhase(Phase next);
  void FlushOrders();
  std::optional<protocol::Order> OrderFor(const Agent& agent, TimePoint at) const;
  std::optional<TimePoint> NextDeadline() const;
  protocol::Fence Newest() const { return {config.attempt, round}; }
  protocol::Fence Ended() const { return {config.attempt, current ? round - 1 : round}; }
  bool Forming() const { return phase == Phase::kForming || phase == Phase::kLastCall; }
  bool Over() const { return phase == Phase::kDraining || phase == Phase::kClosed; }
  Round* Running() { return phase == Phase::kActive ? &*current : nullptr; }
  const Round* Running() const { return phase == Phase::kActive ? &*current : nullptr; }
  void Tell(std::string_view kind, std::string text, const std::string& node = {},
            std::int32_t rank = -1);
  static std::int32_t RankOf(const Member& member, std::uint32_t local_rank) {
    return static_cast<std::int32_t>(member.assignment.first_rank + local_rank);
  }

  const protocol::Config config;
  Membership members;
  Phase phase = Phase::kForming;
  TimePoint phase_since;

  std::uint32_t round = 0;           // newest number, also of rounds that were only prepared
  std::uint32_t rounds_started = 0;  // that ran
  std::uint32_t seals_in_a_row = 0;  // since a round ran
  std::uint32_t previous_world_size = 0;
  std::vector<std::string> previous_nodes;  // of the newest round that ran, in rank order
  std::optional<Round> current;             // while preparing and active
  protocol::Blame last_blame;
  RestartPolicy policy;

  std::optional<TimePoint> first_agent_at;
  std::optional<TimePoint> last_call_since;
  std::optional<TimePoint> short_since;
  std::optional<TimePoint> not_before;
  std::optional<TimePoint> readmit_at;
  std::string step_ended;  // the host's word
  std::optional<TimePoint> step_ended_at;
  bool can_requeue = false;
  std::vector<std::string> starting_nodes;  // the host's word, for people

  protocol::Verdict verdict;
  bool requeue_after_drain = false;
  std::vector<std::string> requeue_without;  // nodes
  std::uint64_t requeue_wish = 0;            // open if not 0
  TimePoint drain_since;

  Keys keys;
  Barriers barriers;
  Wishes wishes;

  // Of the step that runs.
  TimePoint now;
  Effects effects;
  bool orders_changed = false;
  std::optional<TimePoint> deadlines_done;  // DeadlinePassed was stepped at this time
};

}  // namespace muster::core
