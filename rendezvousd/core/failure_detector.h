#pragma once

// The failure detector: turns beats, broken streams, probes, Slurm's word and time into *suspect*,
// *back* and *dead*. It stands in front of the journal: what it decides is an event there, what it
// knows is not state and starts anew after a restart or when the loop itself was late.
//
// Rules (design: sections 5, 7, 7a): an agent is suspect one lease after the receipt of its last
// beat, or at once when its stream ends without goodbye. It is dead
//   - when its stream ended and it did not attend again within attend_grace, and its machine
//     answers a probe (the agent died, cause kAgent);
//   - when probes from up to two other agents (and never fewer than one) find its machine
//     unreachable and no rank has made progress since shortly before they were asked (cause kNode);
//   - when Slurm says that the node is down, and no rank has made progress since (cause kNode).
// More than a third of three or more agents silent at once: the daemon doubts its own link, no
// verdict for 60 s, then by Slurm's word only.
//
// A function over time, like the machine: no clock, no I/O. One thread owns it.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "common/time.h"
#include "rendezvousd/core/machine.h"
#include "rendezvousd/protocol/messages.h"

namespace muster::core {

// Ask this agent to probe; its ProbeAnswer comes back through OnProbeAnswer.
struct SendProbe {
  protocol::AgentId prober;
  protocol::Probe probe;
};

struct Detection {
  std::vector<Event> events;  // AgentSuspect, AgentBack, AgentDead, in this order to be stepped
  std::vector<SendProbe> probes;
};

struct DetectorConfig {
  Duration beat{};
  Duration lease{};
  Duration attend_grace{};
  Duration probe_timeout{};
  Duration doubt = std::chrono::seconds(60);
};

class FailureDetector {
 public:
  explicit FailureDetector(DetectorConfig config);
  ~FailureDetector();
  FailureDetector(FailureDetector&&) noexcept;

  // An agent attends (address as in its hello). Also its first beat. Forgets other incarnations of
  // its key, so only tell of one that the machine has admitted.
  Detection OnAttend(const protocol::AgentId& agent, const std::string& address, TimePoint now);
  // It said goodbye, was dismissed or declared dead: forget it.
  void Forget(const protocol::AgentId& agent);
  Detection OnBeat(const protocol::AgentId& agent, TimePoint now);
  Detection OnDetached(const protocol::AgentId& agent, TimePoint now);
  // Any rank of the running round told a new step.
  void OnProgress(TimePoint now);
  Detection OnProbeAnswer(const protocol::AgentId& prober, const protocol::ProbeAnswer& answer,
                          TimePoint now);
  // All nodes that Slurm calls dead now: a node that is not among them (any more) is not.
  Detection OnSlurmDead(const std::vector<std::string>& nodes, TimePoint now);
  // Call at NextDeadline(), and at least once a beat. A call that comes more than a beat late
  // starts all leases anew: the loop was away, not the agents.
  Detection OnTime(TimePoint now);
  std::optional<TimePoint> NextDeadline() const;
  // Seconds of silence, for views: "suspect since 3 s".
  std::optional<Duration> SuspectSince(const protocol::AgentId& agent, TimePoint now) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace muster::core
