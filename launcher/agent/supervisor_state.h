#pragma once

// Private to supervisor_machine.cc (events) and supervisor_reconcile.cc (from the newest order to
// effects).

#include <map>
#include <optional>
#include <set>
#include <string>

#include "launcher/agent/outbox.h"
#include "launcher/agent/supervisor_machine.h"

namespace muster::agent {

class SupervisorMachine::State {
 public:
  explicit State(MachineConfig config);

  MachineEffects Step(const MachineEvent& event, TimePoint now);
  std::optional<TimePoint> NextDeadline() const;
  std::optional<protocol::Fence> FenceOf(const WorkerId& worker) const;
  std::optional<protocol::Order> Running() const;

 private:
  enum class Ending { kNot, kTerm, kKill };
  struct Worker {
    Serial serial = 0;
    bool present = false;  // its process, or what it started, may be there
    bool alive = false;    // its own process
    std::int32_t pid = 0;
    protocol::Fence fence;  // of the round that it was started or re-formed in
    bool can_reform = false;
    // Between rounds.
    bool ending_told = false;
    bool quiesced = false;
    TimePoint quiesce_until{};
    // Sent into a new round, and not heard of since.
    bool unheard = false;
    TimePoint heard_until{};
    // Being ended.
    Ending ending = Ending::kNot;
    TimePoint ending_until{};
    bool stuck = false;
    std::string remains;
    bool frozen = false;
    // What it told.
    std::int32_t exit_code = 0;
    std::optional<protocol::Fence> exited_in;  // by itself, told upward
    std::optional<protocol::Fence> broken_in;
    std::set<std::uint8_t> asked;
    std::uint8_t phase = 0;
    std::int64_t last_step = -1;
    bool progress_unsent = false;
    TimePoint progress_next{};
  };
  enum class Said { kNothing, kProblem, kReady };
  enum class Port { kNone, kAsked, kBound, kFailed };

  // supervisor_machine.cc
  void On(const OrderReceived& event, TimePoint now);
  void On(const AcknowledgeReceived& event, TimePoint now);
  void On(const BeatAnswerReceived& event, TimePoint now);
  void On(const LinkUp& event, TimePoint now);
  void On(const LinkDown& event, TimePoint now);
  void On(const ProcessStarted& event, TimePoint now);
  void On(const ProcessExited& event, TimePoint now);
  void On(const TreeGone& event, TimePoint now);
  void On(const TreeRemains& event, TimePoint now);
  void On(const SweepDone& event, TimePoint now);
  void On(const WorkerRegistered& event, TimePoint now);
  void On(const WorkerProgressed& event, TimePoint now);
  void On(const WorkerQuiesced& event, TimePoint now);
  void On(const WorkerBroke& event, TimePoint now);
  void On(const WorkerAsked& event, TimePoint now);
  void On(const WorkerHeard& event, TimePoint now);
  void On(const PortBound& event, TimePoint now);
  void On(const PortFailed& event, TimePoint now);
  void On(const StopAsked& event, TimePoint now);
  void On(const ParentGone& event, TimePoint now);
  void On(const TimePassed& event, TimePoint now);
  bool IsStale(const protocol::Order& order) const;
  Worker* Find(const WorkerId& id);
  const Worker* Find(const WorkerId& id) const;
  // A worker that takes part: alive and not being ended.
  Worker* FindActive(const WorkerId& id);
  void Keep(protocol::UpwardBody body);
  void SendOnce(protocol::UpwardBody body);
  void SendProgress(Slot slot, Worker& worker, TimePoint now);
  protocol::WorkerStatus StatusOf(Slot slot, const Worker& worker) const;
  void Thaw();

  // supervisor_reconcile.cc
  void Reconcile(TimePoint now);
  void OnTimers(TimePoint now);
  // While the daemon is not reached: says so, and gives up where it never was.
  void WaitForLink(TimePoint now);
  std::optional<TimePoint> SilenceToldAt() const;
  void FreezeIfCutOff(TimePoint now);
  std::optional<TimePoint> FreezeAt() const;
  void End(Slot slot, Worker& worker, TimePoint now);
  void QuietOrEnd(Slot slot, Worker& worker, TimePoint now);
  void PutInRound(Slot slot, TimePoint now);
  bool IsQuiet(const Worker& worker) const;
  void ReconcilePort();
  void SayReady();
  void SayGoodbye(TimePoint now);
  bool Closing() const;
  Duration Grace() const;
  bool NeedsPort() const;
  void Emit(MachineEffect effect) { effects_.push_back(std::move(effect)); }

  const MachineConfig config_;
  Outbox outbox_;
  MachineEffects effects_;  // of the step under way

  std::optional<protocol::Order> order_;
  protocol::Fence ended_;  // newest round that was told to have ended
  std::map<Slot, Worker> workers_;
  Serial next_serial_ = 1;

  Said said_ = Said::kNothing;  // for the prepare order that is obeyed
  std::uint64_t ready_number_ = 0;
  Port port_ = Port::kNone;
  protocol::Fence port_fence_;
  std::string port_address_;
  std::uint32_t port_number_ = 0;
  std::string port_problem_;

  bool link_ = false;
  bool link_final_ = false;
  std::optional<TimePoint> link_down_since_;
  std::string link_trouble_;  // the newest reason
  bool link_was_up_ = false;
  std::optional<TimePoint> link_told_at_;
  TimePoint next_beat_{};
  std::uint64_t beat_sequence_ = 0;
  std::map<std::uint64_t, TimePoint> beats_;  // sent and not answered
  std::optional<TimePoint> hello_at_;         // of the newest stream
  std::optional<TimePoint> answered_at_;      // when the last answered beat was sent
  std::optional<TimePoint> progress_at_;

  bool stopping_ = false;  // by ourselves, without a close order
  bool parent_gone_ = false;
  std::string stop_reason_;
  int stop_code_ = 0;
  std::optional<TimePoint> stop_at_;
  bool sweep_asked_ = false;
  bool swept_ = false;
  std::string left_over_;
  std::uint64_t goodbye_number_ = 0;
  std::optional<TimePoint> goodbye_until_;
  bool finished_ = false;
};

}  // namespace muster::agent
