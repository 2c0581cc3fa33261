#pragma once

// What turns inputs into the machine's events and its effects into messages: the loop's body, free
// of gRPC and threads, so that tests drive it with their own peers and time.
//
// Order within one batch: inputs become events (beats are answered here, the failure detector adds
// its own), all journalled events are written in one piece, then all are stepped and their effects
// sent. Nobody is told anything that the journal does not hold. Thread-compatible: one thread owns
// it. Times are steady times, as the clock reads them.

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/log.h"
#include "rendezvousd/core/failure_detector.h"
#include "rendezvousd/core/machine.h"
#include "rendezvousd/server/call_table.h"
#include "rendezvousd/server/inbox.h"
#include "rendezvousd/server/recovery.h"
#include "rendezvousd/server/state_writer.h"

namespace muster::server {

// A host that has not attended for this long will not take the verdict: it is in the files.
inline constexpr Duration kHostAbsentMax = std::chrono::seconds(10);
// people's view is written at most this often.
inline constexpr Duration kStatusInterval = std::chrono::milliseconds(500);

class MachineDriver {
 public:
  MachineDriver(Recovered recovered, StateWriter* files, TimePoint now);

  void Handle(std::vector<Input> inputs, TimePoint now);
  // Call at NextWake() at the latest.
  void OnTime(TimePoint now);
  TimePoint NextWake() const;

  // Set once the run is over and the host knows, or has been away too long to be told.
  std::optional<protocol::Verdict> Over(TimePoint now) const;
  const std::optional<std::string>& stop_reason() const { return stop_reason_; }
  // Answers every caller and ends every stream.
  void End(const Status& reason);
  protocol::RunView View(TimePoint now) const;

 private:
  // Inputs to events.
  void Take(AgentSaid input);
  void Take(AgentEnded input);
  void Take(HostAttached input);
  void Take(HostSaid input);
  void Take(HostEnded input);
  void Take(KeyAsked input);
  void Take(BarrierAsked input);
  void Take(CallGone input);
  void Take(OperateAsked input);
  void Take(ViewAsked input);
  void Take(StopAsked input);
  void Attach(const std::shared_ptr<AgentPeer>& peer, const protocol::Upward& hello);
  void TakeBeat(AgentPeer* peer, const protocol::AgentId& agent, const protocol::Beat& beat);
  void TakeProgress(const protocol::AgentId& agent, const protocol::WorkerProgress& progress);
  void Tick();
  void Detected(core::Detection detection);
  void Expire(core::Token token);

  // Events to effects.
  void Commit();
  void Step(const core::Event& event, std::optional<std::uint64_t> record);
  void AfterStep(const core::Event& event, const core::Effects& effects);
  void Apply(const core::SendOrder& effect);
  void Apply(const core::SendAcknowledge& effect);
  void Apply(const core::Dismiss& effect);
  void Apply(const core::ReplyKey& effect);
  void Apply(const core::ReplyBarrier& effect);
  void Apply(const core::SetWishes& effect);
  void Apply(const core::Report& effect);
  void Admitted(const protocol::AgentId& agent, const std::string& address);
  AgentPeer* Find(const protocol::AgentId& agent) const;
  void WriteFiles();

  // The newest step of an agent's workers; a later round may begin at an earlier step.
  struct Progress {
    protocol::Fence fence;
    std::int64_t step = -1;
  };
  struct Attendance {
    std::shared_ptr<AgentPeer> peer;
    bool said_goodbye = false;
  };

  std::unique_ptr<Journal> journal_;
  std::unique_ptr<CrashMark> crash_mark_;
  std::unique_ptr<core::Machine> machine_;
  const MachineClock clock_;
  core::FailureDetector detector_;
  StateWriter* const files_;
  const Duration beat_;

  TimePoint now_;        // machine time of what is being handled
  TimePoint last_tick_;  // of the detector
  std::vector<core::Event> events_;
  std::map<protocol::AgentId, Attendance> agents_;
  std::map<const AgentPeer*, protocol::AgentId> names_;
  std::map<protocol::AgentId, Progress> last_steps_;
  std::shared_ptr<HostPeer> host_;
  TimePoint host_left_;
  CallTable calls_;
  std::vector<std::shared_ptr<OperateReply>> operated_;  // answered after the commit
  std::optional<std::string> stop_reason_;

  bool changed_ = true;  // since the files were written
  TimePoint files_written_;
  protocol::Fence handed_over_;
  bool verdict_written_ = false;
  LogChanged files_trouble_;
};

}  // namespace muster::server
