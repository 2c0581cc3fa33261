#pragma once

// A supervisor machine with a made-up world around it: processes that start, end and hang as the
// test says, and everything that was sent.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <map>
#include <string>
#include <vector>

#include "launcher/agent/supervisor_machine.h"

namespace muster::agent {

using protocol::Fence;
using protocol::Order;
using protocol::OrderKind;
using std::chrono::milliseconds;
using std::chrono::seconds;

inline MachineConfig TestConfig() {
  MachineConfig config;
  config.agent = {{"n1", 0, 0}, 77};
  config.hello.run_id = "run";
  config.hello.slots = 2;
  config.hello.address = "10.0.0.1";
  config.stop_grace = seconds(20);
  return config;
}

inline Order MakeOrder(OrderKind kind, std::uint32_t round, std::uint32_t workers = 2,
                       std::uint32_t first_rank = 0) {
  Order order;
  order.kind = kind;
  order.fence = {0, round};
  order.assignment.workers = workers;
  order.assignment.first_rank = first_rank;
  order.assignment.world_size = 4;
  order.assignment.local_world_size = workers;
  order.assignment.node_count = 2;
  if (kind == OrderKind::kRun) {
    order.master_address = "10.0.0.1";
    order.master_port = 4000;
  }
  return order;
}

class World {
 public:
  explicit World(MachineConfig config = TestConfig()) : machine(config) {}

  MachineEffects Feed(const MachineEvent& event) {
    MachineEffects effects = machine.Step(event, now);
    for (const MachineEffect& effect : effects) Note(effect);
    return effects;
  }
  MachineEffects Give(const Order& order) { return Feed(OrderReceived{order}); }
  // Moves time in the machine's own steps.
  void Pass(Duration duration) {
    const TimePoint until = now + duration;
    while (machine.NextDeadline() && *machine.NextDeadline() <= until) {
      now = std::max(now, *machine.NextDeadline());
      Feed(TimePassed{});
    }
    now = until;
    Feed(TimePassed{});
  }
  void Up() { Feed(LinkUp{}); }
  void AnswerBeat(std::uint32_t round) { Feed(BeatAnswerReceived{{beats, Fence{0, round}}}); }
  WorkerId Worker(Slot slot) const { return started.at(slot); }
  void Register(Slot slot, bool can_reform = true) {
    Feed(WorkerRegistered{Worker(slot), can_reform});
  }
  // The process ends (by a signal that it got, say), and its tree with it.
  void Die(Slot slot, int code = 143) {
    const WorkerId worker = Worker(slot);
    Feed(ProcessExited{worker, code, 0, protocol::Cause::kCode, "last"});
    Feed(TreeGone{worker});
  }
  // A running world of two workers in round `round`.
  void Run(std::uint32_t round, bool can_reform) {
    Up();
    Give(MakeOrder(OrderKind::kRun, round));
    for (const Slot slot : {0U, 1U}) {
      Feed(ProcessStarted{Worker(slot), static_cast<std::int32_t>(100 + slot)});
      if (can_reform) Register(slot);
    }
    Clear();
  }
  void Quiesce(Slot slot, std::uint32_t round) {
    Feed(WorkerQuiesced{Worker(slot), Fence{0, round}, 5});
  }
  void Clear() {
    sent.clear();
    starts.clear();
    signals.clear();
    rounds.clear();
    endings.clear();
    said.clear();
    finish.reset();
    binds = releases = sweeps = 0;
  }
  template <typename Body>
  std::vector<Body> Sent() const {
    std::vector<Body> found;
    for (const protocol::Upward& message : sent) {
      if (const Body* body = std::get_if<Body>(&message.body)) found.push_back(*body);
    }
    return found;
  }
  // "0:15 1:9": slot and signal, in order.
  std::string Signals() const {
    std::string text;
    for (const SignalTree& signal : signals) {
      if (!text.empty()) text += ' ';
      text += std::to_string(signal.worker.slot) + ":" + std::to_string(signal.signal);
    }
    return text;
  }

  SupervisorMachine machine;
  TimePoint now{seconds(1000)};
  std::map<Slot, WorkerId> started;
  std::vector<protocol::Upward> sent;
  std::vector<StartWorker> starts;
  std::vector<SignalTree> signals;
  std::vector<SendRound> rounds;
  std::vector<SendRoundEnding> endings;
  std::optional<Finish> finish;
  std::vector<std::string> said;
  std::uint64_t beats = 0;
  int binds = 0;
  int releases = 0;
  int sweeps = 0;

 private:
  void Note(const MachineEffect& effect) {
    if (const auto* send = std::get_if<SendUpward>(&effect)) {
      if (const auto* beat = std::get_if<protocol::Beat>(&send->message.body)) {
        beats = beat->sequence;
        return;
      }
      sent.push_back(send->message);
    } else if (const auto* start = std::get_if<StartWorker>(&effect)) {
      started[start->worker.slot] = start->worker;
      starts.push_back(*start);
    } else if (const auto* signal = std::get_if<SignalTree>(&effect)) {
      signals.push_back(*signal);
    } else if (const auto* round = std::get_if<SendRound>(&effect)) {
      rounds.push_back(*round);
    } else if (const auto* ending = std::get_if<SendRoundEnding>(&effect)) {
      endings.push_back(*ending);
    } else if (const auto* end = std::get_if<Finish>(&effect)) {
      finish = *end;
    } else if (const auto* say = std::get_if<Say>(&effect)) {
      said.push_back(say->text);
    }
    binds += std::holds_alternative<BindPort>(effect) ? 1 : 0;
    releases += std::holds_alternative<ReleasePort>(effect) ? 1 : 0;
    sweeps += std::holds_alternative<Sweep>(effect) ? 1 : 0;
  }
};

}  // namespace muster::agent
