#include "launcher/agent/supervisor.h"

#include <signal.h>
#include <unistd.h>

#include <filesystem>

#include "common/log.h"
#include "common/text.h"
#include "launcher/agent/prober.h"

namespace muster::agent {
namespace {

// For what was sent KILL to leave, at the agent's own end; slurmstepd waits longer.
constexpr Duration kSweepLimit = std::chrono::seconds(5);

MachineConfig ConfigOf(const SupervisorSetup& setup, const protocol::AgentId& agent) {
  const Options& options = setup.options;
  MachineConfig config;
  config.agent = agent;
  config.attempt = options.attempt;
  config.hello.version = options.version;
  config.hello.run_id = options.run_id;
  config.hello.node_index = setup.place.node_index;
  config.hello.agents_on_node = setup.place.agents_on_node;
  config.hello.slots = options.workers_per_agent;
  config.hello.address = setup.own_address;
  if (setup.findings.problem) {
    config.hello.problem = setup.findings.problem->text;
    config.hello.problem_code = setup.findings.problem->exit_code;
  }
  config.endpoint = setup.endpoint;
  config.first_contact_limit = options.form_timeout;
  config.beat = options.beat;
  config.lease = options.lease;
  config.stop_grace = options.stop_grace;
  // Nobody ends a step whose host died under `run --local`, so its agents do it sooner.
  config.end_with_verdict = setup.own_program;
  if (options.local) config.lost_limit = std::chrono::seconds(10);
  return config;
}

OutputOptions OutputOf(const SupervisorSetup& setup) {
  OutputOptions options;
  options.local_folder = setup.folders.logs;
  options.shared_folder = setup.options.log_dir;
  options.agent_name = setup.place.node;
  if (setup.place.agents_on_node > 1) {
    options.agent_name += Concat(".task-", setup.place.task_id);
  }
  options.show_all_up_to = setup.options.show_all_up_to;
  return options;
}

}  // namespace

Supervisor::Supervisor(EventLoop* loop, client::Client* client, SupervisorSetup setup)
    : loop_(loop),
      client_(client),
      setup_(std::move(setup)),
      agent_{{setup_.place.node, setup_.place.step_id, setup_.place.task_id}, setup_.incarnation},
      machine_(ConfigOf(setup_, agent_)),
      output_(OutputOf(setup_)),
      workers_(loop,
               {[this](WorkerId worker, Stream stream, std::string_view bytes) {
                  output_.Append(worker, stream, bytes, SteadyNow());
                },
                [this](WorkerId worker, pid_t /*pid*/, int status) { OnExit(worker, status); },
                [this](WorkerId worker) {
                  callers_.erase(worker);
                  output_.Forget(worker);
                  Feed(TreeGone{worker});
                },
                [this](WorkerId worker, std::string processes) {
                  Feed(TreeRemains{worker, std::move(processes)});
                }}),
      server_(loop, {[this](pid_t pid) { return workers_.Identify(pid); },
                     [this](ConnectionId connection, WorkerId worker, LocalMessage message) {
                       OnLocal(connection, worker, std::move(message));
                     }}),
      relay_(loop, client, agent_, [this](ConnectionId connection, const std::string& frame) {
        server_.Send(connection, frame);
      }) {}

Supervisor::~Supervisor() {
  if (session_) session_->Close();
  session_.reset();
  if (timer_ != 0) loop_->CancelTimer(timer_);
}

Status Supervisor::Begin() {
  MUSTER_RETURN_IF_ERROR(server_.Listen(setup_.folders.socket));
  MUSTER_RETURN_IF_ERROR(MakePrivateFolder(setup_.folders.logs));
  Result<network::HeldPort> ras = network::HeldPort::Bind("127.0.0.1", network::Taker::kReusePort);
  if (ras.ok()) ras_port_ = std::move(ras).value();
  client::AttendEvents events;
  events.on_connected = [this] { loop_->Post([this] { Feed(LinkUp{}); }); };
  events.on_message = [this](protocol::Downward message) {
    loop_->Post([this, message = std::move(message)] { OnDownward(message); });
  };
  events.on_disconnected = [this](Status status) {
    loop_->Post([this, status = std::move(status)] {
      LogDebug(Concat("no stream to the daemon: ", status.ToString()));
      Feed(LinkDown{status, client::IsFinal(status)});
    });
  };
  session_ = client_->Attend(std::move(events));
  return OkStatus();
}

void Supervisor::OnStop(const std::string& reason) {
  const std::string path = setup_.folders.own + "/notice";
  const std::string hidden = path + ".new";
  // Renamed, so that whoever sees the file sees all of it.
  FILE* const file = fopen(hidden.c_str(), "we");
  if (file != nullptr) {
    fprintf(file, "%s\n", reason.c_str());
    fclose(file);
    rename(hidden.c_str(), path.c_str());
  }
  Feed(StopAsked{reason});
}

// ---- the machine --------------------------------------------------------------------------------

void Supervisor::Feed(MachineEvent event) {
  waiting_.push_back(std::move(event));
  if (feeding_) return;
  feeding_ = true;
  while (!waiting_.empty() && !exit_code_) {
    const MachineEvent next = std::move(waiting_.front());
    waiting_.pop_front();
    for (const MachineEffect& effect : machine_.Step(next, SteadyNow())) Apply(effect);
  }
  feeding_ = false;
  ArmTimer();
}

void Supervisor::ArmTimer() {
  if (timer_ != 0) loop_->CancelTimer(timer_);
  timer_ = 0;
  const std::optional<TimePoint> when = machine_.NextDeadline();
  if (!when || exit_code_) return;
  timer_ = loop_->At(*when, [this] {
    timer_ = 0;
    Feed(TimePassed{});
  });
}

void Supervisor::Apply(const MachineEffect& effect) {
  std::visit([this](const auto& body) { Do(body); }, effect);
}

void Supervisor::Do(const SendUpward& effect) { session_->Send(effect.message); }

void Supervisor::Do(const SignalTree& effect) { workers_.Signal(effect.worker, effect.signal); }

void Supervisor::Do(const SendRound& effect) {
  EnterRound(effect.worker, effect.round);
  local::FrameWriter writer(local::FrameType::kRound);
  effect.round.Write(&writer);
  server_.SendToWorker(effect.worker, writer.Finish());
}

void Supervisor::Do(const SendRoundEnding& effect) {
  local::FrameWriter writer(local::FrameType::kRoundEnding);
  writer.Add(effect.fence.attempt).Add(effect.fence.round).Add(effect.cause);
  server_.SendToWorker(effect.worker, writer.Finish());
}

void Supervisor::Do(const BindPort& effect) {
  Result<network::HeldPort> port =
      network::HeldPort::Bind(setup_.own_address, network::Taker::kReuseAddress);
  if (!port.ok()) {
    Feed(PortFailed{effect.fence,
                    Concat(setup_.place.node, " has no master port: ", port.status().message())});
    return;
  }
  master_port_ = std::move(port).value();
  Feed(PortBound{effect.fence, setup_.own_address, master_port_->port()});
}

void Supervisor::Do(const ReleasePort& /*effect*/) { master_port_.reset(); }

void Supervisor::Do(const Sweep& /*effect*/) {
  const std::vector<ProcessInfo> left = KillDescendants(getpid(), kSweepLimit);
  Feed(SweepDone{left.empty() ? "" : DescribeProcesses(left)});
}

void Supervisor::Do(const Finish& effect) {
  exit_code_ = effect.exit_code;
  exit_reason_ = effect.text;
  loop_->Stop();
}

void Supervisor::Do(const Say& effect) {
  Log(effect.warning ? LogLevel::kWarning : LogLevel::kInfo,
      Concat("agent on ", setup_.place.node, ": ", effect.text));
}

// ---- the daemon ---------------------------------------------------------------------------------

void Supervisor::OnDownward(protocol::Downward message) {
  if (auto* order = std::get_if<protocol::Order>(&message)) {
    EndOldRounds(*order);
    Feed(OrderReceived{std::move(*order)});
  } else if (const auto* answer = std::get_if<protocol::BeatAnswer>(&message)) {
    Feed(BeatAnswerReceived{*answer});
  } else if (const auto* acknowledge = std::get_if<protocol::Acknowledge>(&message)) {
    Feed(AcknowledgeReceived{acknowledge->number});
  } else if (const auto* probe = std::get_if<protocol::Probe>(&message)) {
    OnProbe(*probe);
  }
}

void Supervisor::EndOldRounds(const protocol::Order& order) {
  protocol::Fence newest = order.fence;
  const bool named =
      order.kind == protocol::OrderKind::kPrepare || order.kind == protocol::OrderKind::kRun;
  if (named && newest.round > 0) --newest.round;
  relay_.EndRounds(newest);
}

void Supervisor::OnProbe(const protocol::Probe& probe) {
  ProbeAddress(
      loop_, probe.address, setup_.probe_port, probe.timeout,
      [this, id = probe.probe_id](const ProbeResult& result) {
        if (exit_code_) return;
        session_->Send({agent_, 0, protocol::ProbeAnswer{id, result.reachable, result.text}});
      });
}

// ---- what workers say ---------------------------------------------------------------------------

void Supervisor::OnLocal(ConnectionId connection, const WorkerId& worker, LocalMessage message) {
  if (auto* registered = std::get_if<LocalRegister>(&message)) {
    Feed(WorkerRegistered{worker, registered->can_reform});
  } else if (auto* progress = std::get_if<LocalProgress>(&message)) {
    Feed(WorkerProgressed{worker, progress->phase, progress->step});
  } else if (auto* quiesced = std::get_if<LocalQuiesced>(&message)) {
    Feed(WorkerQuiesced{worker, quiesced->fence, quiesced->step});
  } else if (auto* broken = std::get_if<LocalBroken>(&message)) {
    Feed(WorkerBroke{worker, broken->fence, std::move(broken->reason)});
  } else if (auto* key = std::get_if<LocalKey>(&message)) {
    Relayed(connection, worker, std::move(*key));
  } else if (auto* barrier = std::get_if<LocalBarrier>(&message)) {
    Relayed(connection, worker, std::move(*barrier));
  } else if (auto* request = std::get_if<LocalRequest>(&message)) {
    Feed(WorkerAsked{worker, request->kind, std::move(request->reason)});
    relay_.Reply(connection, request->id, OkStatus());
  }
}

void Supervisor::Relayed(ConnectionId connection, const WorkerId& worker, LocalKey message) {
  Feed(WorkerHeard{worker});
  const auto caller = callers_.find(worker);
  if (caller == callers_.end() || !machine_.FenceOf(worker)) {
    relay_.Reply(connection, message.id, FailedPrecondition("this worker is being ended"));
    return;
  }
  relay_.Key(connection, caller->second, std::move(message));
}

void Supervisor::Relayed(ConnectionId connection, const WorkerId& worker, LocalBarrier message) {
  Feed(WorkerHeard{worker});
  const auto caller = callers_.find(worker);
  if (caller == callers_.end() || !machine_.FenceOf(worker)) {
    relay_.Reply(connection, message.id, FailedPrecondition("this worker is being ended"));
    return;
  }
  relay_.Barrier(connection, caller->second, std::move(message));
}

void Supervisor::FinishOutput(Duration limit) {
  if (any_failed_ && !setup_.options.log_dir.empty()) {
    // What NCCL said while it formed explains many failures. On a thread: the folder may hang.
    WriterThread collector(1);
    collector.Push(1, [from = setup_.folders.logs,
                       to = Concat(setup_.options.log_dir, "/attempt-", setup_.options.attempt,
                                   "/nccl-", setup_.place.node)] { CopyFiles(from, "nccl.", to); });
    collector.Stop(limit / 2);
  }
  const bool complete = output_.Finish(limit);
  if (setup_.options.log_dir.empty()) {
    LogInfo(Concat("workers' output of ", setup_.place.node, " is in ", setup_.folders.logs));
    return;
  }
  if (!complete) {
    LogWarning(Concat(setup_.options.log_dir, " did not take all output in time; ",
                      setup_.place.node, " keeps it in ", setup_.folders.logs));
    return;
  }
  std::error_code ignored;
  std::filesystem::remove_all(setup_.folders.logs, ignored);
}

}  // namespace muster::agent
