#pragma once

// A run while it lives: the loop that host.cc starts. Split over run.cc (start and end), and
// run_events.cc (signals, wishes, facts, views). Nobody but host.cc makes one.

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/log.h"
#include "launcher/agent/event_loop.h"
#include "launcher/host/agents_step.h"
#include "launcher/host/blocking_worker.h"
#include "launcher/host/daemon_keeper.h"
#include "launcher/host/host.h"
#include "launcher/host/listen_address.h"
#include "launcher/host/view_watch.h"
#include "launcher/slurm/scheduler.h"
#include "rendezvousd/client/client.h"
#include "rendezvousd/client/credentials.h"

namespace muster::host {

class Run {
 public:
  Run(LaunchInput input, Launch launch, std::optional<SrunWay> srun_way);
  ~Run();
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  // REQUIRES: signals of the host are blocked in this thread, and no other thread runs.
  int Main();

 private:
  // run.cc
  Status Start();
  Result<std::vector<std::string>> NodesToReach() const;
  Status StartDaemon(const client::RunCredentials& credentials);
  Status StartClient(const client::RunCredentials& credentials);
  Status StartAgents(const client::RunCredentials& credentials);
  std::vector<StepProcess> LocalAgents() const;
  std::vector<std::string> LivingNodes() const;
  Result<StepProcess> SrunAgents(const std::vector<std::string>& nodes) const;
  Status TellSrun(const client::RunCredentials& credentials);
  void Finish(const protocol::Verdict& verdict, Duration patience);
  void OnAgentsClosed();
  void StopDaemon();
  void CleanUp();

  // run_events.cc
  void WatchSignals();
  void DrainSignals();
  void OnSignal(int number);
  void Cancel(const std::string& reason);
  void OnDaemonGivenUp(const std::string& reason);
  void OnStepEnded(const StepProcess& process, const std::string& reason);
  void OnWishes(std::vector<protocol::Wish> wishes);
  void DropNodes(const protocol::Wish& wish);
  void StartNewAgents(const protocol::Wish& wish);
  void Answer(std::uint64_t wish, protocol::WishState state, const std::string& reason);
  void SendFacts();
  void PollView();
  void PollScheduler();

  // run_requeue.cc
  // Agents that have not been told to end by the daemon are told now.
  void StartRequeue(const protocol::Wish& wish, bool told);
  void DoRequeue();
  void OnRequeueFailed(const std::string& reason, bool cancelled);
  void AwaitJobsEnd();

  const LaunchInput input_;
  const Launch launch_;
  const std::optional<SrunWay> srun_way_;
  protocol::Verdict verdict_;
  bool finishing_ = false;
  bool agents_closed_ = false;

  agent::EventLoop loop_;
  agent::Descriptor signals_;
  agent::Descriptor srun_parent_;
  agent::EventLoop::Id srun_watch_ = 0;
  Listener listener_;
  std::string address_;
  agent::Options agent_options_;
  slurm::EnvironmentMap agents_environment_;  // holds the join secret
  std::unique_ptr<DaemonKeeper> daemon_;
  std::unique_ptr<AgentsStep> agents_;
  std::unique_ptr<slurm::Scheduler> scheduler_;
  std::unique_ptr<client::Client> client_;
  std::unique_ptr<client::HostSession> session_;

  bool connected_ = false;
  int interrupts_ = 0;
  bool term_seen_ = false;
  std::string cancel_reason_;
  protocol::HostFacts facts_;
  std::set<std::string> dropped_;  // nodes that are no longer the job's
  std::map<std::uint64_t, protocol::WishAnswer> answers_;
  std::optional<protocol::Wish> requeue_;  // under way
  bool requeue_told_ = false;              // the agents had said goodbye before
  bool requeued_ = false;
  ViewWatch watch_;
  TimePoint started_{};
  TimePoint scheduler_asked_{};
  bool scheduler_busy_ = false;
  LogChanged scheduler_trouble_;
  LogChanged session_trouble_;

  // Last, so that they end first: their work touches what is above.
  std::unique_ptr<BlockingWorker> views_;
  std::unique_ptr<BlockingWorker> calls_;
};

}  // namespace muster::host
