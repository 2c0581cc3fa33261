#include "launcher/agent/supervisor.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "common/hex.h"
#include "common/log.h"
#include "common/text.h"
#include "launcher/agent/output_patterns.h"
#include "launcher/agent/prober.h"

namespace muster::agent {
namespace {

// For what was sent KILL to leave, at the agent's own end; slurmstepd waits longer.
constexpr Duration kSweepLimit = std::chrono::seconds(5);
// As the daemon's limit for texts.
constexpr std::size_t kTextBytesMax = 4096;
// As a shell shows a program that could not be started.
constexpr int kNotStarted = 126;

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
  config.beat = options.beat;
  config.lease = options.lease;
  config.stop_grace = options.stop_grace;
  // Nobody ends a step whose host died under `run --local`, so its agents do it sooner.
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

std::uint32_t CountDevices() {
  std::uint32_t count = 0;
  while (access(Concat("/dev/nvidia", count).c_str(), F_OK) == 0) ++count;
  return count;
}

std::string Hex(std::uint64_t value) {
  std::string bytes;
  for (int shift = 56; shift >= 0; shift -= 8) {
    bytes += static_cast<char>((value >> static_cast<unsigned>(shift)) & 255U);
  }
  return HexEncode(bytes);
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

// ---- workers ------------------------------------------------------------------------------------

std::string Supervisor::Mark(const WorkerId& worker) const {
  return Concat(Hex(setup_.incarnation), "-", worker.serial);
}

std::string Supervisor::ErrorFile(const WorkerId& worker) const {
  return Concat(setup_.folders.own, "/error-", worker.serial, ".json");
}

WorkerFacts Supervisor::FactsOf(const StartWorker& effect) const {
  const protocol::Assignment& part = effect.order.assignment;
  WorkerFacts facts;
  facts.round =
      MakeRoundInfo(effect.order, effect.worker.slot, setup_.own_address, setup_.options.run_id);
  facts.tasks_per_node = part.tasks_per_node;
  facts.local_index = effect.worker.slot;
  facts.run_name = setup_.options.run_name;
  facts.agent_socket = setup_.folders.socket;
  facts.state_dir = setup_.options.state_dir;
  facts.checkpoint_dir = setup_.options.checkpoint_dir;
  facts.local_dir = setup_.folders.local;
  facts.notice_file = setup_.folders.own + "/notice";
  facts.error_file = ErrorFile(effect.worker);
  facts.worker_mark = Mark(effect.worker);
  facts.cpus =
      static_cast<std::uint32_t>(AllowedCpus().size()) / std::max<std::uint32_t>(part.workers, 1);
  facts.devices = VisibleDevices(setup_.environment, CountDevices());
  network::SettingFacts network_facts;
  network_facts.interface = setup_.interface;
  network_facts.log_folder = setup_.folders.logs;
  network_facts.ras_port = ras_port_ ? ras_port_->port() : 0;
  facts.network = network::NetworkSettings(network_facts);
  return facts;
}

void Supervisor::EnterRound(const WorkerId& worker, const local::RoundInfo& round) {
  RelayCaller caller;
  caller.fence = {round.attempt, round.round};
  caller.rank = round.rank;
  const std::optional<protocol::Order> order = machine_.Running();
  for (std::uint32_t i = 0; order && i < order->assignment.workers; ++i) {
    caller.agent_ranks.insert(order->assignment.first_rank + i);
  }
  callers_[worker] = std::move(caller);
  output_.BeginRound(worker, round);
}

void Supervisor::Do(const StartWorker& effect) {
  const WorkerFacts facts = FactsOf(effect);
  const Made made = MakeWorkerEnvironment(setup_.environment, setup_.options, facts);
  for (const Replaced& replaced : made.replaced) {
    if (!replaced_told_.insert(replaced.name).second) continue;
    LogWarning(Concat(replaced.name, " was ", Quote(replaced.old_value),
                      " in the environment; workers get this round's own value (--keep-env ",
                      replaced.name, " keeps it)"));
  }
  EnterRound(effect.worker, facts.round);
  ExecStage stage;
  stage.node = setup_.place.node;
  stage.working_dir = setup_.options.working_dir;
  stage.slurm_task = setup_.place.slurm;
  stage.program = setup_.options.program;
  const Result<pid_t> pid =
      workers_.Start(effect.worker, std::move(stage), made.environment, facts.worker_mark);
  if (pid.ok()) {
    Feed(ProcessStarted{effect.worker, *pid});
    return;
  }
  any_failed_ = true;
  LogError(pid.status().message());
  Feed(
      ProcessExited{effect.worker, kNotStarted, 0, protocol::Cause::kCode, pid.status().message()});
}

void Supervisor::OnExit(const WorkerId& worker, int status) {
  server_.CloseWorker(worker);
  output_.EndOfWorker(worker, SteadyNow());
  ProcessExited exited;
  exited.worker = worker;
  exited.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  exited.exit_code = exited.signal != 0 ? 128 + exited.signal : WEXITSTATUS(status);
  if (exited.exit_code != 0) {
    const std::vector<std::string> lines = output_.LastLines(worker);
    const std::string told =
        MessageOfErrorFile(ReadSmallFile(ErrorFile(worker)).value_or("")).substr(0, kTextBytesMax);
    exited.last_line = told.empty() ? ExplainingLine(lines) : told;
    const protocol::Cause known = CauseOfLines(lines);
    if (exited.signal == SIGKILL && memory_.KilledSinceLastLook()) {
      exited.cause = protocol::Cause::kMemory;
    } else if (known != protocol::Cause::kNone) {
      exited.cause = known;
    }
    // Those that end by our own signal are no failures to show.
    if (machine_.FenceOf(worker)) {
      any_failed_ = true;
      output_.ShowFailure(worker);
    }
  }
  unlink(ErrorFile(worker).c_str());
  Feed(std::move(exited));
}

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
