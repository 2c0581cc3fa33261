#pragma once

// The rendezvous machine: one run's world as a function over time.
//
// Step(event, now) changes the state and returns what must be done; NextDeadline() says when to
// call again with DeadlinePassed. No clock, thread, socket, file, log or randomness inside, so a
// failure can be replayed from the journal, simulated by the thousand and told as a short text.
// Guarantees, held by tests after every step: one roster per round; ranks 0..n-1 once each and one
// node's ranks adjacent; no stale incarnation in a roster; fences grow; each token is answered
// exactly once; a barrier frees all or fails all; sizes within limits.h; no deadline in the past.
//
// Not thread-safe: one thread owns it (rendezvousd/server/loop.h, the simulation, replay).

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "common/status.h"
#include "common/time.h"
#include "rendezvousd/protocol/config.h"
#include "rendezvousd/protocol/messages.h"

namespace muster::core {

// A caller that waits for an answer; chosen by the loop, never reused while it is open.
using Token = std::uint64_t;

// ---- events -------------------------------------------------------------------------------------
// Those marked J change the journalled state: the loop writes them before it calls Step.

// J, but for Beat, WorkerProgress and ProbeAnswer, which go to the detector. WorkerProgress comes
// here too: the first step of a round is state (see Machine::MustJournal), the others are for
// views.
struct AgentMessage {
  protocol::Upward message;
};
struct AgentDetached {  // J: the stream of this incarnation ended without goodbye
  protocol::AgentId agent;
};
// From the failure detector, which stands in front of the journal.
struct AgentSuspect {  // J
  protocol::AgentId agent;
  std::string reason;
};
struct AgentBack {  // J
  protocol::AgentId agent;
};
struct AgentDead {  // J: with evidence (probes, Slurm's word, or a lapsed attend grace)
  protocol::AgentId agent;
  protocol::Cause cause = protocol::Cause::kNode;  // kNode, or kAgent where the machine answers
  std::string evidence;
};
struct KeyCall {  // J for kSet and kAdd
  Token token = 0;
  protocol::KeyRequest request;
};
struct BarrierCall {  // J
  Token token = 0;
  protocol::BarrierRequest request;
};
// The caller's deadline passed or its connection ended: forget the token. Answered with
// DeadlineExceeded and the reason if it was still open.
struct CallExpired {
  Token token = 0;
};
struct HostMessage {  // J
  protocol::HostUp message;
};
struct DeadlinePassed {  // J: posted by the loop when NextDeadline() is reached
};
// After a restart all leases start anew and every parked caller is gone.
struct Restarted {  // J
};

using Event = std::variant<AgentMessage, AgentDetached, AgentSuspect, AgentBack, AgentDead, KeyCall,
                           BarrierCall, CallExpired, HostMessage, DeadlinePassed, Restarted>;

// ---- effects ------------------------------------------------------------------------------------

struct SendOrder {
  protocol::AgentId agent;
  protocol::Order order;
};
struct SendAcknowledge {
  protocol::AgentId agent;
  std::uint64_t number = 0;
};
// End this agent's stream with the status: fenced, wrong version, full.
struct Dismiss {
  protocol::AgentId agent;
  Status reason;
};
struct ReplyKey {
  Token token = 0;
  protocol::KeyAnswer answer;
};
struct ReplyBarrier {
  Token token = 0;
  Status status;
};
// The whole set of open wishes; replaces the one before.
struct SetWishes {
  std::vector<protocol::Wish> wishes;
};
struct Report {
  protocol::EventRecord record;
};

using Effect =
    std::variant<SendOrder, SendAcknowledge, Dismiss, ReplyKey, ReplyBarrier, SetWishes, Report>;
using Effects = std::vector<Effect>;

class Machine {
 public:
  // REQUIRES: Validate(config).ok()
  explicit Machine(protocol::Config config);
  ~Machine();
  Machine(Machine&&) noexcept;
  Machine& operator=(Machine&&) noexcept;

  Effects Step(const Event& event, TimePoint now);
  std::optional<TimePoint> NextDeadline() const;

  // What people are shown. Pure.
  protocol::RunView View(TimePoint now) const;
  // The order that this agent should obey now; what is sent when it attends.
  std::optional<protocol::Order> CurrentOrder(const protocol::AgentId& agent, TimePoint now) const;
  // The open wishes, sent when the host attends.
  std::vector<protocol::Wish> CurrentWishes() const;
  // Members of the running or preparing round, and everybody present (for the detector).
  std::vector<protocol::AgentId> Present() const;
  bool InRound(const protocol::AgentId& agent) const;
  // Set once the run is closed and every agent has said goodbye or was given up.
  std::optional<protocol::Verdict> Finished() const;
  const protocol::Config& config() const;
  // IsJournalled, and besides the one WorkerProgress that tells the first step of the running
  // round. (A loop that does not write that one learns it again from the next hello.)
  bool MustJournal(const Event& event) const;

  // Throws nothing; aborts (MUSTER_CHECK) with the sentence that is broken. For tests and replay.
  void CheckInvariants(TimePoint now) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// True if the event must be in the journal before it is stepped.
bool IsJournalled(const Event& event);

}  // namespace muster::core
