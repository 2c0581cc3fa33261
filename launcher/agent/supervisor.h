#pragma once

// The supervisor: the machine of supervisor_machine.h with real processes, sockets, files and the
// daemon around it. It decides nothing; it does what the machine says and tells it what happens.
//
// Everything runs on the loop, on the main thread; the client's callbacks are posted there.

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "launcher/agent/event_loop.h"
#include "launcher/agent/folders.h"
#include "launcher/agent/local_server.h"
#include "launcher/agent/memory_watch.h"
#include "launcher/agent/node_check.h"
#include "launcher/agent/options.h"
#include "launcher/agent/output.h"
#include "launcher/agent/relay.h"
#include "launcher/agent/supervisor_machine.h"
#include "launcher/agent/worker_environment.h"
#include "launcher/agent/workers.h"
#include "launcher/network/held_port.h"
#include "rendezvousd/client/client.h"

namespace muster::agent {

struct SupervisorSetup {
  Options options;
  Place place;
  Environment environment;  // the agent's own
  Folders folders;
  std::string own_address;
  std::string interface;
  std::string endpoint;          // the daemon's
  std::uint16_t probe_port = 9;  // where probes knock: the daemon's port
  protocol::Incarnation incarnation = 0;
  NodeFindings findings;     // of its node, before it attends
  bool own_program = false;  // given to this agent itself: it is a task of the user's srun
};

class Supervisor {
 public:
  // Both outlive it.
  Supervisor(EventLoop* loop, client::Client* client, SupervisorSetup setup);
  ~Supervisor();
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;

  // Opens the local socket and attends. After that the loop does everything, until it stops with an
  // exit code.
  Status Begin();
  std::optional<int> exit_code() const { return exit_code_; }
  // Why, where it is not the daemon's close order; "" then.
  const std::string& exit_reason() const { return exit_reason_; }

  // SIGCHLD.
  void OnChildren() { workers_.Reap(); }
  // TERM, INT or HUP: told to end from outside. Writes the notice file.
  void OnStop(const std::string& reason);
  // Another signal: to the workers that catch it.
  void OnSignal(int signal) { workers_.SignalCatchers(signal); }
  void OnParentGone() { Feed(ParentGone{}); }

  // Writes out what workers said; call after the loop has ended.
  void FinishOutput(Duration limit);

 private:
  void Feed(MachineEvent event);
  void Apply(const MachineEffect& effect);
  void Do(const SendUpward& effect);
  void Do(const StartWorker& effect);
  void Do(const SignalTree& effect);
  void Do(const SendRound& effect);
  void Do(const SendRoundEnding& effect);
  void Do(const BindPort& effect);
  void Do(const ReleasePort& effect);
  void Do(const Sweep& effect);
  void Do(const Finish& effect);
  void Do(const Say& effect);
  void ArmTimer();

  void OnDownward(protocol::Downward message);
  void OnProbe(const protocol::Probe& probe);
  void EndOldRounds(const protocol::Order& order);
  void OnExit(const WorkerId& worker, int status);
  void OnLocal(ConnectionId connection, const WorkerId& worker, LocalMessage message);
  void Relayed(ConnectionId connection, const WorkerId& worker, LocalKey message);
  void Relayed(ConnectionId connection, const WorkerId& worker, LocalBarrier message);
  void EnterRound(const WorkerId& worker, const local::RoundInfo& round);
  WorkerFacts FactsOf(const StartWorker& effect) const;
  std::string ErrorFile(const WorkerId& worker) const;
  std::string Mark(const WorkerId& worker) const;

  EventLoop* const loop_;
  client::Client* const client_;
  const SupervisorSetup setup_;
  const protocol::AgentId agent_;
  SupervisorMachine machine_;
  Output output_;
  Workers workers_;
  LocalServer server_;
  Relay relay_;
  MemoryWatch memory_;
  std::unique_ptr<client::AttendSession> session_;

  std::deque<MachineEvent> waiting_;
  bool feeding_ = false;
  EventLoop::Id timer_ = 0;
  std::map<WorkerId, RelayCaller> callers_;
  std::set<std::string> replaced_told_;
  std::optional<network::HeldPort> master_port_;
  std::optional<network::HeldPort> ras_port_;
  bool any_failed_ = false;
  std::optional<int> exit_code_;
  std::string exit_reason_;
};

}  // namespace muster::agent
