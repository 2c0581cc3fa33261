#include "launcher/host/run.h"

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <utility>

#include "common/text.h"
#include "launcher/host/agents_command.h"
#include "launcher/host/srun_host.h"
#include "launcher/slurm/command_line_scheduler.h"
#include "proto/environment.h"

namespace muster::host {
namespace {

// From the end of the workers' grace to the end of their agents: output is flushed meanwhile.
constexpr Duration kAgentsEnd = std::chrono::seconds(5);
// A closed daemon ends by itself when its files are written.
constexpr Duration kDaemonEnd = std::chrono::seconds(3);

std::vector<std::string> Without(slurm::EnvironmentMap environment) {
  for (const char* name :
       {environment::kJoinSecret, environment::kAgentOptions, environment::kStep}) {
    environment.erase(name);
  }
  return slurm::EnvironmentEntries(environment);
}

}  // namespace

Run::Run(LaunchInput input, Launch launch, std::optional<SrunWay> srun_way)
    : input_(std::move(input)), launch_(std::move(launch)), srun_way_(std::move(srun_way)) {}

Run::~Run() {
  // No callback may come into a half-destroyed object.
  calls_.reset();
  views_.reset();
  session_.reset();
  client_.reset();
}

int Run::Main() {
  started_ = SteadyNow();
  WatchSignals();
  if (const Status status = Start(); !status.ok()) {
    verdict_ = MakeVerdict(protocol::Outcome::kFailed, exit_code::kCouldNotForm,
                           protocol::Cause::kNone, status.message());
    if (agents_) agents_->Signal(SIGTERM);
    Finish(verdict_, Duration::zero());
  }
  if (const Status status = loop_.Run(); !status.ok()) {
    LogError(Concat("the host's loop broke: ", status.message()));
    if (agents_) agents_->Signal(SIGKILL);
    verdict_ = MakeVerdict(protocol::Outcome::kFailed, 1, protocol::Cause::kNone, status.message());
  }
  CleanUp();
  return verdict_.exit_code;
}

Status Run::Start() {
  MUSTER_ASSIGN_OR_RETURN(const client::RunCredentials credentials, client::MakeRunCredentials());
  if (!launch_.plan.local) {
    scheduler_ = std::make_unique<slurm::CommandLineScheduler>(input_.environment);
    MUSTER_ASSIGN_OR_RETURN(const std::vector<std::string> nodes, NodesToReach());
    MUSTER_ASSIGN_OR_RETURN(address_, ChooseListenAddress(nodes, input_.allocation.node_name));
  } else {
    address_ = "127.0.0.1";
  }
  MUSTER_ASSIGN_OR_RETURN(listener_, Listen(address_));
  views_ = std::make_unique<BlockingWorker>(&loop_);
  calls_ = std::make_unique<BlockingWorker>(&loop_);
  MUSTER_RETURN_IF_ERROR(StartDaemon(credentials));
  MUSTER_RETURN_IF_ERROR(StartClient(credentials));
  agent_options_ = AgentOptions(input_, launch_);
  agent_options_.endpoints = {listener_.endpoint};
  agent_options_.certificate = credentials.certificate;
  if (srun_way_) return TellSrun(credentials);
  return StartAgents(credentials);
}

Result<std::vector<std::string>> Run::NodesToReach() const {
  if (!launch_.plan.nodes.empty()) return launch_.plan.nodes;
  if (!input_.allocation.nodes.empty()) return input_.allocation.nodes;
  // An srun of its own outside of a job: only Slurm knows where it got its nodes.
  MUSTER_ASSIGN_OR_RETURN(slurm::JobInfo job,
                          scheduler_->ReadJob(input_.allocation.job, std::chrono::seconds(10)));
  if (job.nodes.empty()) return Unavailable("Slurm names no node of the job");
  return std::move(job.nodes);
}

Status Run::StartDaemon(const client::RunCredentials& credentials) {
  MUSTER_ASSIGN_OR_RETURN(
      std::string program,
      FindDaemon(std::string(slurm::Lookup(input_.environment, "MUSTER_RENDEZVOUSD"))));
  protocol::StartOptions options;
  options.config = ToConfig(launch_.plan, input_.options);
  options.config.run_id = launch_.run_id;
  options.config.attempt = launch_.attempt;
  options.join_secret = credentials.join_secret;
  options.operator_secret = credentials.operator_secret;
  options.certificate = credentials.certificate;
  options.private_key = credentials.private_key;
  options.journal = launch_.journal_dir + "/journal";
  options.state_dir = launch_.files.folder;
  MUSTER_RETURN_IF_ERROR(protocol::Validate(options.config));
  daemon_ = std::make_unique<DaemonKeeper>(
      &loop_, std::move(program), Without(input_.environment), std::move(options), &listener_,
      DaemonKeeper::Events{
          .given_up = [this](std::string reason) { OnDaemonGivenUp(reason); },
          .stopped = [this] { loop_.Stop(); },
      });
  return daemon_->Start();
}

Status Run::StartClient(const client::RunCredentials& credentials) {
  OperatorAccess access;
  access.endpoints = {listener_.endpoint};
  access.certificate = credentials.certificate;
  access.secret = credentials.operator_secret;
  access.host = input_.host_name;
  access.pid = getpid();
  access.attempt = launch_.attempt;
  MUSTER_RETURN_IF_ERROR(WriteOperatorAccess(launch_.files, access));
  client::Options options;
  options.target = listener_.endpoint;
  options.certificate = credentials.certificate;
  options.secret = credentials.operator_secret;
  MUSTER_ASSIGN_OR_RETURN(client_, client::Client::Create(std::move(options)));
  facts_.can_requeue = launch_.plan.can_requeue;
  client::HostEvents events;
  events.on_connected = [this] {
    loop_.Post([this] {
      connected_ = true;
      session_trouble_.Clear();
      SendFacts();
    });
  };
  events.on_wishes = [this](std::vector<protocol::Wish> wishes) {
    loop_.Post([this, wishes = std::move(wishes)] { OnWishes(wishes); });
  };
  events.on_disconnected = [this](Status status) {
    loop_.Post([this, status = std::move(status)] {
      connected_ = false;
      if (!finishing_) {
        session_trouble_.Say(LogLevel::kDebug,
                             Concat("no daemon at ", listener_.endpoint, ": ", status.message()));
      }
    });
  };
  session_ = client_->ServeHost(std::move(events));
  loop_.Post([this] { PollView(); });
  if (scheduler_) loop_.Post([this] { PollScheduler(); });
  return OkStatus();
}

Status Run::StartAgents(const client::RunCredentials& credentials) {
  agents_environment_ = {
      {environment::kAgentOptions, agent::ToJson(agent_options_)},
      {environment::kJoinSecret, credentials.join_secret},
      {environment::kStep, environment::kStepAgents},
  };
  std::vector<StepProcess> processes;
  if (launch_.plan.local) {
    processes = LocalAgents();
  } else {
    MUSTER_ASSIGN_OR_RETURN(StepProcess srun, SrunAgents(LivingNodes()));
    processes.push_back(std::move(srun));
  }
  agents_ = std::make_unique<AgentsStep>(
      &loop_, std::move(processes),
      AgentsStep::Events{
          .ended = [this](const StepProcess& process,
                          const std::string& reason) { OnStepEnded(process, reason); },
          .closed = [this] { OnAgentsClosed(); },
          .before_restart =
              [this](StepProcess* process) {
                // A node that is gone would keep the whole step from starting.
                if (launch_.plan.local) return;
                Result<StepProcess> srun = SrunAgents(LivingNodes());
                if (srun.ok()) *process = std::move(srun).value();
              },
      });
  return agents_->Start();
}

std::vector<StepProcess> Run::LocalAgents() const {
  std::vector<StepProcess> processes;
  for (const std::string& node : launch_.plan.nodes) {
    slurm::EnvironmentMap own = input_.environment;
    for (const auto& [name, value] : agents_environment_) own[name] = value;
    own[agent::kLocalNode] = node;
    StepProcess process;
    process.what = Concat("the agent of ", node);
    process.node = node;
    process.request.argv = {"muster", "agent"};
    process.request.path = "/proc/self/exe";  // this very program, also while it is being replaced
    process.request.environment = slurm::EnvironmentEntries(own);
    process.request.new_session = true;
    processes.push_back(std::move(process));
  }
  return processes;
}

Status Run::TellSrun(const client::RunCredentials& credentials) {
  agent::Descriptor ready(srun_way_->ready_descriptor);
  MUSTER_RETURN_IF_ERROR(
      agent::WriteAll(ready.get(), ReadyAnswer(agent_options_, credentials.join_secret))
          .With("srun does not listen"));
  // srun is our parent: when it is gone, so are its tasks, or nobody is left to tell.
  srun_parent_ = agent::Descriptor(static_cast<int>(syscall(SYS_pidfd_open, getppid(), 0)));
  if (!srun_parent_.valid()) return FromErrno(errno, "srun cannot be watched");
  srun_watch_ = loop_.WatchReadable(srun_parent_.get(), [this] {
    loop_.Unwatch(srun_watch_);
    Finish(MakeVerdict(protocol::Outcome::kStopped, exit_code::kStopped, protocol::Cause::kNone,
                       "srun is gone"),
           Duration::zero());
  });
  return OkStatus();
}

std::vector<std::string> Run::LivingNodes() const {
  std::vector<std::string> nodes;
  for (const std::string& node : launch_.plan.nodes) {
    const bool dead = std::ranges::find(facts_.dead_nodes, node) != facts_.dead_nodes.end();
    if (!dead && !dropped_.contains(node)) nodes.push_back(node);
  }
  return nodes;
}

Result<StepProcess> Run::SrunAgents(const std::vector<std::string>& nodes) const {
  MUSTER_ASSIGN_OR_RETURN(slurm::SrunCommand command,
                          AgentsCommand(input_, nodes, agents_environment_));
  StepProcess process;
  process.what = nodes.size() == launch_.plan.nodes.size()
                     ? "the agents' srun"
                     : Concat("the srun of agents on ", Join(nodes, ","));
  process.request.argv = std::move(command.arguments);
  process.request.environment = slurm::EnvironmentEntries(command.environment);
  return process;
}

void Run::Finish(const protocol::Verdict& verdict, Duration patience) {
  if (finishing_) return;
  finishing_ = true;
  verdict_ = verdict;
  if (daemon_) daemon_->ExpectEnd();
  if (!agents_ || agents_closed_) return StopDaemon();
  agents_->Close(patience, input_.options.stop_grace + kAgentsEnd);
}

void Run::OnAgentsClosed() {
  agents_closed_ = true;
  if (finishing_) return StopDaemon();
  if (requeue_) DoRequeue();
}

void Run::StopDaemon() {
  if (!daemon_) return loop_.Post([this] { loop_.Stop(); });
  daemon_->Stop(kDaemonEnd);
}

void Run::CleanUp() {
  const Result<std::optional<PastVerdict>> written = NewestVerdict(launch_.files);
  const bool there = written.ok() && *written && (*written)->attempt == launch_.attempt &&
                     (*written)->verdict.outcome == verdict_.outcome;
  if (!there) {
    if (const Status status = WriteVerdict(launch_.files, launch_.attempt, verdict_);
        !status.ok()) {
      LogWarning(Concat("the verdict is not in the state folder: ", status.message()));
    }
  }
  std::error_code ignored;
  std::filesystem::remove(launch_.files.OperatorFile(), ignored);
  RemoveSharedToken(launch_.files.folder);
  std::filesystem::remove_all(launch_.journal_dir, ignored);
  std::filesystem::remove(std::filesystem::path(launch_.journal_dir).parent_path(), ignored);
  MarkEnded(launch_);
  const bool failed = verdict_.outcome == protocol::Outcome::kFailed;
  Log(failed ? LogLevel::kError : LogLevel::kInfo, VerdictSentence(verdict_));
  if (failed && agents_) LogInfo(Concat("the workers' output is in ", launch_.log_dir));
  if (requeued_) AwaitJobsEnd();
}

}  // namespace muster::host
