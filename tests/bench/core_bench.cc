// What one event costs the core, in worlds of 8 to 12,500 agents: machine and failure detector
// alone, in virtual time, without journal, threads or network. One JSON line a measure on stdout:
// {"measure": ..., "agents": N, "ns": median of the repetitions, per event}.
//
//   join     one agent's hello into a world that lacks only it and others
//   event    the mix of a running round: beats, step marks, key adds, waits, streams lost and back
//   detect   a beat and the detector's clock, with one agent silent
//   decide   a rank's death until the machine has decided, per agent told of it
//
// scripts/bench runs it.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "rendezvousd/core/failure_detector.h"
#include "rendezvousd/core/machine.h"

namespace muster::core {
namespace {

using Wall = std::chrono::steady_clock;

constexpr std::uint32_t kWorkers = 8;
constexpr int kRepetitions = 5;
constexpr std::size_t kEvents = 200'000;

double Nanoseconds(Wall::duration spent) {
  return std::chrono::duration<double, std::nano>(spent).count();
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// A world of `agents` nodes, one agent each, with the messages that its agents send.
class World {
 public:
  explicit World(std::size_t agents) : machine_(Configuration(agents)) {
    for (std::size_t i = 0; i < agents; ++i) ids_.push_back({{Name(i), 0, 0}, i + 1});
    numbers_.resize(agents, 0);
  }

  static std::string Name(std::size_t index) { return "node" + std::to_string(index); }
  std::size_t size() const { return ids_.size(); }
  const protocol::AgentId& id(std::size_t index) const { return ids_[index]; }

  std::size_t Step(const Event& event) {
    now_ += std::chrono::microseconds(1);
    return machine_.Step(event, now_).size();
  }
  Event Hello(std::size_t index) const {
    protocol::Hello hello;
    hello.version = "1";
    hello.run_id = "bench";
    hello.node_index = static_cast<std::uint32_t>(index);
    hello.slots = kWorkers;
    hello.address = "10.0.0.1";
    return AgentMessage{{ids_[index], 0, hello}};
  }
  Event Numbered(std::size_t index, protocol::UpwardBody body) {
    return AgentMessage{{ids_[index], ++numbers_[index], std::move(body)}};
  }
  Event Ready(std::size_t index) {
    protocol::Ready ready;
    ready.fence = fence_;
    ready.master_address = "10.0.0.1";
    ready.master_port = 29500;
    return Numbered(index, ready);
  }
  void Join() {
    for (std::size_t i = 0; i < size(); ++i) Step(Hello(i));
  }
  void Start() {
    ++fence_.round;
    for (std::size_t i = 0; i < size(); ++i) Step(Ready(i));
  }
  bool Runs() const { return machine_.InRound(ids_[0]) && machine_.View(now_).phase == "active"; }
  Event Progress(std::size_t index, std::int64_t step) const {
    protocol::WorkerProgress progress;
    progress.fence = fence_;
    progress.step = step;
    return AgentMessage{{ids_[index], 0, progress}};
  }
  Event Add(std::size_t index, Token token) const {
    protocol::KeyRequest request;
    request.id = {ids_[index], token};
    request.fence = fence_;
    request.operation = protocol::KeyOperation::kAdd;
    request.key = "key" + std::to_string(index % 64);
    request.delta = 1;
    return KeyCall{token, request};
  }
  Event Get(std::size_t index, Token token) const {
    protocol::KeyRequest request;
    request.id = {ids_[index], token};
    request.fence = fence_;
    request.operation = protocol::KeyOperation::kGet;
    request.key = "key" + std::to_string(index % 64);
    return KeyCall{token, request};
  }
  Event Killed(std::size_t index) {
    protocol::WorkerExited exit;
    exit.fence = fence_;
    exit.exit_code = 137;
    exit.signal = 9;
    return Numbered(index, exit);
  }

 private:
  static protocol::Config Configuration(std::size_t agents) {
    protocol::Config config;
    config.run_id = "bench";
    config.version = "1";
    config.min_nodes = config.max_nodes = static_cast<std::uint32_t>(agents);
    config.workers_per_agent = kWorkers;
    for (std::size_t i = 0; i < agents; ++i) config.nodes.push_back(Name(i));
    return config;
  }

  std::vector<protocol::AgentId> ids_;
  std::vector<std::uint64_t> numbers_;
  Machine machine_;
  protocol::Fence fence_;
  TimePoint now_{std::chrono::hours(1)};
};

template <typename Run>
void Measure(const char* measure, std::size_t agents, const Run& run) {
  std::vector<double> costs;
  for (int i = 0; i < kRepetitions; ++i) costs.push_back(run());
  std::printf("{\"measure\": \"%s\", \"agents\": %zu, \"ns\": %.1f}\n", measure, agents,
              Median(std::move(costs)));
  std::fflush(stdout);
}

void Require(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "muster-core-bench: %s\n", what);
  std::exit(1);
}

// Small worlds are joined often enough to be measured at all.
double CostOfJoin(std::size_t agents) {
  const std::size_t worlds = std::max<std::size_t>(1, 4000 / agents);
  Wall::duration spent{};
  for (std::size_t i = 0; i < worlds; ++i) {
    World world(agents);
    std::vector<Event> hellos;
    // The last one seals the round, which tells everybody: that is not a join's cost.
    for (std::size_t j = 0; j + 1 < agents; ++j) hellos.push_back(world.Hello(j));
    const auto begin = Wall::now();
    for (const Event& hello : hellos) world.Step(hello);
    spent += Wall::now() - begin;
  }
  return Nanoseconds(spent) / static_cast<double>(worlds * (agents - 1));
}

double CostOfEvent(std::size_t agents) {
  World world(agents);
  world.Join();
  world.Start();
  Require(world.Runs(), "the round did not start");
  std::vector<Event> events;
  events.reserve(kEvents);
  for (std::size_t i = 0; events.size() < kEvents; ++i) {
    const std::size_t agent = i * 7919 % agents;
    events.push_back(world.Progress(agent, static_cast<std::int64_t>(i)));
    events.push_back(world.Add(agent, 2 * i + 1));
    events.push_back(world.Get(agent, 2 * i + 2));
    events.push_back(AgentDetached{world.id(agent)});
    events.push_back(world.Hello(agent));
  }
  const auto begin = Wall::now();
  for (const Event& event : events) world.Step(event);
  const Wall::duration spent = Wall::now() - begin;
  Require(world.Runs(), "the round did not outlive the events");
  return Nanoseconds(spent) / static_cast<double>(events.size());
}

double CostOfDetection(std::size_t agents) {
  using std::chrono::milliseconds;
  const milliseconds beat(1000);
  FailureDetector detector(
      {beat, milliseconds(5000), milliseconds(1000), milliseconds(1000), milliseconds(60000)});
  const World world(agents);
  TimePoint now{std::chrono::hours(1)};
  for (std::size_t i = 0; i < agents; ++i) detector.OnAttend(world.id(i), "10.0.0.1", now);
  // Everybody beats once a beat, but for one agent, until that one is suspect; the detector's clock
  // runs on.
  const std::size_t rounds = std::max<std::size_t>(8, kEvents / agents);
  const auto between = std::chrono::duration_cast<Duration>(beat) / agents;
  std::size_t suspects = 0;
  std::size_t events = 0;
  const auto begin = Wall::now();
  for (std::size_t round = 0; round < rounds; ++round) {
    for (std::size_t i = 0; i < agents; ++i) {
      now += between;
      if (i != agents / 2) detector.OnBeat(world.id(i), now);
      const auto due = detector.NextDeadline();
      if (due && *due <= now) suspects += detector.OnTime(now).events.size();
      ++events;
    }
    suspects += detector.OnTime(now).events.size();
  }
  const Wall::duration spent = Wall::now() - begin;
  Require(suspects > 0, "nobody noticed the silent agent");
  return Nanoseconds(spent) / static_cast<double>(events);
}

// Everybody must be told, so the cost is per agent told.
double CostOfDecision(std::size_t agents) {
  World world(agents);
  world.Join();
  world.Start();
  Require(world.Runs(), "the round did not start");
  const Event killed = world.Killed(agents / 2);
  const auto begin = Wall::now();
  const std::size_t effects = world.Step(killed);
  const Wall::duration spent = Wall::now() - begin;
  Require(effects >= agents, "not everybody was told");
  return Nanoseconds(spent) / static_cast<double>(agents);
}

void MeasureAll() {
  for (const std::size_t agents : {8U, 64U, 512U, 4096U, 10'000U, 12'500U}) {
    Measure("join", agents, [&] { return CostOfJoin(agents); });
    Measure("event", agents, [&] { return CostOfEvent(agents); });
    Measure("detect", agents, [&] { return CostOfDetection(agents); });
    Measure("decide", agents, [&] { return CostOfDecision(agents); });
  }
}

}  // namespace
}  // namespace muster::core

int main() {
  muster::core::MeasureAll();
  return 0;
}
