#pragma once

// The supervisor's machine: one agent's part in a run as a function over time, like the daemon's.
//
// It is told the newest order, what its processes do and what its workers say, and answers with
// what must be done until processes and order agree. No clock, process, socket, file, log or
// randomness inside; ordered containers only. Guarantees, held by tests: no process of an older
// round is left when Ready is said, but those that are named in it; a process is started at most
// once a round and slot unless a survivor did not come back; every numbered message is repeated
// until acknowledged; after TERM always comes KILL; Goodbye comes after the last process.
//
// One thread owns it (launcher/agent/supervisor.h, tests).

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "common/status.h"
#include "common/time.h"
#include "proto/local.h"
#include "rendezvousd/protocol/messages.h"

namespace muster::agent {

// A worker's place on this agent, from 0.
using Slot = std::uint32_t;
// One started process; never reused in one supervisor's life.
using Serial = std::uint64_t;
struct WorkerId {
  Slot slot = 0;
  Serial serial = 0;
  auto operator<=>(const WorkerId&) const = default;
};

struct MachineConfig {
  protocol::AgentId agent;
  protocol::Hello hello;  // fence and workers are filled in
  std::uint32_t attempt = 0;
  Duration beat = std::chrono::seconds(1);
  Duration lease = std::chrono::seconds(5);
  Duration stop_grace = std::chrono::seconds(20);  // TERM to KILL
  // For a worker that can re-form to leave its collectives; a third of the daemon's prepare time.
  Duration quiesce_limit = std::chrono::seconds(10);
  // For a re-formed worker to say anything in its new round.
  Duration reform_limit = std::chrono::seconds(30);
  // From KILL until a process that is still there is told as a problem.
  Duration kill_limit = std::chrono::seconds(5);
  // After TERM from outside, for the daemon's own close order.
  Duration close_wait = std::chrono::seconds(1);
  // For the acknowledgement of Goodbye.
  Duration goodbye_limit = std::chrono::seconds(2);
  // Without the daemon and without a parent: nobody will come back.
  Duration lost_limit = std::chrono::seconds(60);
  // The daemon's address, for people.
  std::string endpoint;
  // An agent that has never reached the daemon is of no use after this long.
  Duration first_contact_limit = std::chrono::minutes(30);
  // Silence of the daemon is told after the first, and again after each of the second.
  Duration silence_told_after = std::chrono::seconds(5);
  Duration silence_told_again = std::chrono::minutes(1);
  // The agent ends with the run's exit code: it is a task of the user's own srun. Else with 0,
  // since the host speaks for the run.
  bool end_with_verdict = false;
};

// ---- events -------------------------------------------------------------------------------------
struct OrderReceived {
  protocol::Order order;
};
struct AcknowledgeReceived {
  std::uint64_t number = 0;
};
struct BeatAnswerReceived {
  protocol::BeatAnswer answer;
};
struct LinkUp {};
struct LinkDown {
  Status reason;
  bool final = false;  // attending again is pointless
};
struct ProcessStarted {
  WorkerId worker;
  std::int32_t pid = 0;
};
struct ProcessExited {  // also for one that could not be started
  WorkerId worker;
  std::int32_t exit_code = 0;  // as a shell shows it
  std::int32_t signal = 0;
  protocol::Cause cause = protocol::Cause::kCode;
  std::string last_line;
};
// After a SignalTree: nothing of the worker is left, or this is.
struct TreeGone {
  WorkerId worker;
};
struct TreeRemains {
  WorkerId worker;
  std::string processes;  // "1234 (python, state D)"
};
struct SweepDone {  // answer to Sweep
  std::string remains;
};
struct WorkerRegistered {
  WorkerId worker;
  bool can_reform = false;
};
struct WorkerProgressed {
  WorkerId worker;
  std::uint8_t phase = 0;
  std::int64_t step = -1;
};
struct WorkerQuiesced {
  WorkerId worker;
  protocol::Fence fence;
  std::int64_t step = -1;
};
struct WorkerBroke {
  WorkerId worker;
  protocol::Fence fence;
  std::string reason;
};
struct WorkerAsked {
  WorkerId worker;
  std::uint8_t kind = 0;
  std::string reason;
};
struct WorkerHeard {  // any other frame: it is in its round
  WorkerId worker;
};
struct PortBound {
  protocol::Fence fence;
  std::string address;
  std::uint32_t port = 0;
};
struct PortFailed {
  protocol::Fence fence;
  std::string problem;
};
struct StopAsked {  // TERM from Slurm, or from the host's end
  std::string reason;
};
struct ParentGone {};  // who started the keeper is no more
struct TimePassed {};

using MachineEvent =
    std::variant<OrderReceived, AcknowledgeReceived, BeatAnswerReceived, LinkUp, LinkDown,
                 ProcessStarted, ProcessExited, TreeGone, TreeRemains, SweepDone, WorkerRegistered,
                 WorkerProgressed, WorkerQuiesced, WorkerBroke, WorkerAsked, WorkerHeard, PortBound,
                 PortFailed, StopAsked, ParentGone, TimePassed>;

// ---- effects ------------------------------------------------------------------------------------
struct SendUpward {
  protocol::Upward message;
};
struct StartWorker {
  WorkerId worker;
  protocol::Order order;  // kRun: everything that the worker's environment needs
};
// To the worker and all that it started, orphans too. From the first TERM or KILL on the tree is
// watched until TreeGone.
struct SignalTree {
  WorkerId worker;
  int signal = 0;
};
struct SendRound {
  WorkerId worker;
  local::RoundInfo round;
};
struct SendRoundEnding {
  WorkerId worker;
  protocol::Fence fence;
  std::string cause;
};
struct BindPort {
  protocol::Fence fence;
};
struct ReleasePort {};
// KILL to whatever still lives below this agent, then SweepDone.
struct Sweep {};
// The agent ends. `text`, if not empty, is said first.
struct Finish {
  int exit_code = 0;
  std::string text;
};
// For the program's own log.
struct Say {
  bool warning = false;
  std::string text;
};

using MachineEffect = std::variant<SendUpward, StartWorker, SignalTree, SendRound, SendRoundEnding,
                                   BindPort, ReleasePort, Sweep, Finish, Say>;
using MachineEffects = std::vector<MachineEffect>;

class SupervisorMachine {
 public:
  explicit SupervisorMachine(MachineConfig config);
  ~SupervisorMachine();
  SupervisorMachine(const SupervisorMachine&) = delete;
  SupervisorMachine& operator=(const SupervisorMachine&) = delete;

  MachineEffects Step(const MachineEvent& event, TimePoint now);
  std::optional<TimePoint> NextDeadline() const;

  // The round that a worker is in, for its keys and barriers; nothing once it is being ended.
  std::optional<protocol::Fence> FenceOf(const WorkerId& worker) const;
  // The run order that is obeyed now, if any.
  std::optional<protocol::Order> Running() const;

 private:
  class State;
  std::unique_ptr<State> state_;
};

// A worker's place in the round of a run order.
local::RoundInfo MakeRoundInfo(const protocol::Order& order, Slot slot,
                               const std::string& own_address, const std::string& run_id);
// The cause of a round in one word, as workers are told it.
std::string CauseWord(const protocol::Order& order);

}  // namespace muster::agent
