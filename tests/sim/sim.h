#pragma once

// A cluster in one thread of virtual time: model agents, a network that delays, holds, duplicates,
// cuts (also one way) and resets, a host, and the daemon's loop around the real Machine and
// FailureDetector. Everything random comes from one seed, so a failure can be run again.

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <queue>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/random.h"
#include "rendezvousd/core/failure_detector.h"
#include "rendezvousd/core/machine.h"

namespace muster::sim {

// Chances a second of virtual time (of each node, or of the whole world) while chaos lasts.
struct Faults {
  double agent_crash = 0.004;
  double agent_pause = 0.003;
  double agent_twin = 0.0005;  // a second supervisor of a living one's place
  double agent_term = 0.001;   // ended from outside: it says goodbye
  double power_off = 0.002;
  double island = 0.003;    // cut off from everybody
  double cut_up = 0.003;    // one way to the daemon
  double cut_down = 0.003;  // one way from the daemon
  double stream_reset = 0.01;
  double worker_fails = 0.01;  // its own code
  double worker_killed = 0.005;
  double daemon_crash = 0.01;  // of the world
  double loop_late = 0.005;    // the daemon's loop is away for seconds
  double operator_restart = 0.002;
  double operator_cancel = 0.0005;
  double requeue_request = 0.0005;
  double late_node = 0.01;      // an unexpected node joins
  double step_ends = 0.001;     // the host says that srun ended, and starts it anew
  double duplicate = 0.05;      // of a message, not of a second
  double slow_ready = 0.05;     // of a prepare
  double ready_problem = 0.02;  // of a prepare
};

// A wrong machine or network on purpose, to see that the checkers notice.
enum class Planted {
  kNone,
  kLosesOrders,
  kAnswersTwice,
  kForgetsJournal,
  kRunsTwoRounds,
  kRepeatsRequests,  // under a new number: done twice
};

struct SimNode {
  std::string name;
  std::uint32_t index = 0;
  bool powered = true;
  bool island = false;
  bool cut_up = false;
  bool cut_down = false;
  bool dropped = false;  // taken out of the job: never again
};

struct SimWorker {
  protocol::Fence fence;
  bool alive = false;
  std::int32_t code = 0;
  std::int64_t step = -1;
};

struct SimAgent;

// One stream. Either side may have closed it without the other knowing yet.
struct Connection {
  std::shared_ptr<SimAgent> agent;
  bool agent_open = true;
  bool daemon_open = true;
  std::deque<std::pair<TimePoint, protocol::Upward>> up;
  std::deque<std::pair<TimePoint, protocol::Downward>> down;
  bool up_pumping = false;
  bool down_pumping = false;
  TimePoint blocked_since;
};

struct SimAgent {
  protocol::AgentId id;
  SimNode* node = nullptr;
  bool alive = true;
  bool paused = false;
  std::shared_ptr<Connection> connection;
  std::vector<SimWorker> workers;
  std::optional<protocol::Order> order;
  bool killing = false;
  bool readying = false;
  std::optional<protocol::Fence> ready_said;
  bool goodbye_said = false;
  std::uint64_t number = 0;
  std::deque<protocol::Upward> unacknowledged;
  std::uint64_t beats = 0;
  TimePoint last_answer;
  std::uint64_t requests = 0;
  std::set<std::string> barriers_asked;
};

struct Call {
  std::shared_ptr<SimAgent> agent;
  std::optional<protocol::KeyRequest> key;
  std::optional<protocol::BarrierRequest> barrier;
  bool answered = false;
};

// What kRun orders said of one round, and what its barriers did.
struct RoundFacts {
  std::uint32_t world_size = 0;
  std::string master;
  std::map<std::uint32_t, protocol::AgentId> first_ranks;
  std::map<std::uint32_t, std::uint32_t> workers;  // by first rank
  std::set<std::uint32_t> done;
  std::map<std::string, std::set<std::uint32_t>> arrived;
};

struct Result {
  std::string problem;  // empty: all held
  std::string ending;   // "succeeded 0", ...
  std::uint64_t steps = 0;
  std::uint32_t rounds = 0;
  std::uint32_t replays = 0;
};

class Sim {
 public:
  Sim(std::uint64_t seed, bool trace, Planted planted);
  // Agents and their connections know each other.
  ~Sim() {
    for (const auto& agent : agents_) agent->connection.reset();
  }
  Sim(const Sim&) = delete;
  Sim& operator=(const Sim&) = delete;
  Result Run();

 private:
  struct Later {
    TimePoint time;
    std::uint64_t index = 0;
    std::function<void()> action;
    bool operator<(const Later& other) const {
      return std::pair(other.time, other.index) < std::pair(time, index);
    }
  };

  // sim.cc: time, network, checks
  void MakeWorld();
  void At(Duration delay, std::function<void()> action);
  void RunUntil(TimePoint end);
  Duration Delay();
  Duration Seconds(double low, double high);
  bool UpOpen(const SimAgent& agent) const;
  bool DownOpen(const SimAgent& agent) const;
  void SendUp(const std::shared_ptr<Connection>& connection, protocol::Upward message);
  void SendDown(const std::shared_ptr<Connection>& connection, protocol::Downward message);
  void PumpUp(const std::shared_ptr<Connection>& connection);
  void PumpDown(const std::shared_ptr<Connection>& connection);
  void Break(const std::shared_ptr<Connection>& connection, bool daemon_learns);
  void Problem(std::string text);
  void Trace(const std::string& text);
  void CheckConverged();
  std::string WhoDisobeys() const;  // an agent that does not obey its newest order, or empty
  void CheckEnd();

  // sim_faults.cc
  void ChaosSecond();
  void NodeFaults(SimNode& node);
  void WorldFaults();
  void Heal();
  // As keepers and the host do.
  void StartMissing();
  std::shared_ptr<SimAgent> LivingAgent(const SimNode& node, std::uint32_t task) const;

  // sim_agent.cc
  void StartAgent(SimNode& node, std::uint32_t task);
  void EndAgent(const std::shared_ptr<SimAgent>& agent, bool stream_reset);
  void Connect(const std::shared_ptr<SimAgent>& agent);
  void Disconnected(const std::shared_ptr<SimAgent>& agent, const Status& status);
  void BeatTick(const std::shared_ptr<SimAgent>& agent);
  void WorkTick(const std::shared_ptr<SimAgent>& agent);
  void Receive(const std::shared_ptr<SimAgent>& agent, const protocol::Downward& message);
  void Reconcile(const std::shared_ptr<SimAgent>& agent);
  void Kill(const std::shared_ptr<SimAgent>& agent);
  void Say(const std::shared_ptr<SimAgent>& agent, protocol::UpwardBody body);
  void WorkerEnds(const std::shared_ptr<SimAgent>& agent, std::uint32_t local, std::int32_t code,
                  std::int32_t signal, protocol::Cause cause = protocol::Cause::kCode);
  bool Frozen(const SimAgent& agent) const;
  bool Healthy(const protocol::Fence& fence) const;
  void AskSomething(const std::shared_ptr<SimAgent>& agent);
  void Ask(const std::shared_ptr<SimAgent>& agent, Call call, int tries);

  // sim_daemon.cc: the loop
  void DaemonReceive(const std::shared_ptr<Connection>& connection, const protocol::Upward& said);
  void DaemonStreamEnded(const std::shared_ptr<Connection>& connection);
  void DaemonTick();
  void DaemonCrash();
  void DaemonRestart();
  void Step(const core::Event& event);
  void Detected(const core::Detection& detection);
  void Apply(const core::SendOrder& effect);
  void Apply(const core::SendAcknowledge& effect);
  void Apply(const core::Dismiss& effect);
  void Apply(const core::ReplyKey& effect);
  void Apply(const core::ReplyBarrier& effect);
  void Apply(const core::SetWishes& effect);
  void Apply(const core::Report& effect);
  void Answered(core::Token token, const Status& status);
  void CheckKeyAnswer(const protocol::KeyRequest& request, const protocol::KeyAnswer& answer);
  void HostSees(const std::vector<protocol::Wish>& wishes);
  std::string Summary(const core::Machine& machine) const;
  std::unique_ptr<core::FailureDetector> NewDetector() const;

  const std::uint64_t seed_;
  const bool trace_;
  const Planted planted_;
  Random random_;
  Faults faults_;
  bool chaos_ = true;
  protocol::Config config_;
  std::int64_t target_step_ = 40;

  TimePoint now_{std::chrono::hours(1)};
  std::priority_queue<Later> queue_;
  std::uint64_t index_ = 0;
  Result result_;

  std::deque<SimNode> nodes_;
  std::vector<std::shared_ptr<SimAgent>> agents_;
  std::uint64_t incarnations_ = 0;

  bool daemon_up_ = true;
  TimePoint loop_away_until_;
  std::unique_ptr<core::Machine> machine_;
  std::unique_ptr<core::FailureDetector> detector_;
  std::vector<std::pair<core::Event, TimePoint>> journal_;
  std::map<protocol::AgentId, std::shared_ptr<Connection>> streams_;
  std::map<protocol::AgentId, std::string> addresses_;
  std::map<core::Token, Call> calls_;
  core::Token tokens_ = 0;
  std::map<std::uint64_t, protocol::WishAnswer> host_answers_;
  std::vector<std::string> slurm_dead_;

  std::map<protocol::AgentId, protocol::Fence> newest_order_;
  std::map<protocol::Fence, RoundFacts> rounds_;
  // What answers said of a key, by the fence that it lives in.
  using KeyPlace = std::pair<protocol::Fence, std::string>;
  std::map<KeyPlace, std::string> values_;
  std::map<KeyPlace, std::map<std::int64_t, protocol::RequestId>> sums_;
};

}  // namespace muster::sim
