// The supervisor's process: secret, signals, client, loop, end.

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <thread>

#include "common/entropy.h"
#include "common/log.h"
#include "common/text.h"
#include "launcher/agent/agent.h"
#include "launcher/agent/join_secret.h"
#include "launcher/agent/node_lock.h"
#include "launcher/agent/process_tree.h"
#include "launcher/agent/supervisor.h"
#include "launcher/agent/supervisor_arguments.h"
#include "launcher/network/address.h"
#include "proto/environment.h"

namespace muster::agent {
namespace {

// A secret is 64 hex digits; more is not ours.
constexpr std::size_t kSecretBytesMax = 4096;
constexpr Duration kParentPause = std::chrono::seconds(1);
// For workers' last output to reach a slow shared folder. Below KillWait with stop_grace.
constexpr Duration kOutputLimit = std::chrono::seconds(5);
constexpr Duration kLockLimit = std::chrono::seconds(1);
constexpr Duration kRouteLimit = std::chrono::seconds(60);
constexpr int kRoutePauseMs = 500;
// A shared folder that answers later may as well hang; what is wrong there shows at a worker's
// start.
constexpr Duration kNodeCheckLimit = std::chrono::seconds(5);
constexpr Duration kKillLimit = std::chrono::seconds(5);

Result<std::string> ReadSecret(int socket) {
  std::string secret;
  while (secret.size() < kSecretBytesMax) {
    char byte = 0;
    const ssize_t count = read(socket, &byte, 1);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return Unavailable("the keeper died before it gave the secret");
    if (byte == '\n') return secret;
    secret += byte;
  }
  return InvalidArgument("the keeper gave no secret");
}

// Blocked before any thread exists, so that only the descriptor sees them.
int SignalDescriptor() {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGCHLD}) {
    sigaddset(&set, number);
  }
  sigprocmask(SIG_BLOCK, &set, nullptr);
  signal(SIGPIPE, SIG_IGN);
  return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

class Process {
 public:
  Process(SupervisorArguments arguments, int signals)
      : arguments_(std::move(arguments)), socket_(arguments_.socket), signals_(signals) {}

  int Run();

 private:
  Result<SupervisorSetup> Setup();
  Result<network::OwnAddress> OwnAddress(const std::vector<std::string>& endpoints);
  void OnSignals();
  void OnKeeper();
  void CheckParent();
  void RemoveLock();

  const SupervisorArguments arguments_;
  const Descriptor socket_;
  const Descriptor signals_;
  std::string run_id_;
  protocol::AgentKey key_;
  EventLoop loop_;
  std::unique_ptr<client::Client> client_;
  std::unique_ptr<Supervisor> supervisor_;
  bool parent_gone_ = false;
};

// A node that has just booted may have no route for some seconds.
Result<network::OwnAddress> Process::OwnAddress(const std::vector<std::string>& endpoints) {
  const TimePoint until = SteadyNow() + kRouteLimit;
  LogChanged told;
  while (true) {
    Result<network::OwnAddress> own = network::ChooseOwnAddress(endpoints);
    const bool lasting = own.ok() || own.status().code() == StatusCode::kInvalidArgument;
    if (lasting || SteadyNow() >= until) return own;
    told.Say(LogLevel::kWarning,
             Concat(own.status().message(), "; tried again for ", DescribeDuration(kRouteLimit)));
    pollfd waits[2] = {{signals_.get(), POLLIN, 0}, {socket_.get(), POLLRDHUP, 0}};
    if (poll(waits, 2, kRoutePauseMs) > 0) return Cancelled("told to end before it began");
  }
}

Result<SupervisorSetup> Process::Setup() {
  SupervisorSetup setup;
  setup.environment = CurrentEnvironment();
  MUSTER_ASSIGN_OR_RETURN(setup.options,
                          OptionsFromEnvironment(setup.environment, arguments_.program));
  MUSTER_ASSIGN_OR_RETURN(setup.place, OwnPlace(setup.environment, setup.options));
  setup.folders = arguments_.folders;
  setup.own_program = !arguments_.program.empty();
  MUSTER_ASSIGN_OR_RETURN(const network::OwnAddress own, OwnAddress(setup.options.endpoints));
  setup.own_address = own.address;
  setup.interface = own.interface;
  MUSTER_ASSIGN_OR_RETURN(const network::Endpoint daemon, network::ParseEndpoint(own.endpoint));
  setup.probe_port = daemon.port;
  setup.endpoint = own.endpoint;
  while (setup.incarnation == 0) {
    MUSTER_ASSIGN_OR_RETURN(setup.incarnation, RandomSeed());
  }
  client::Options options;
  options.target = own.endpoint;
  options.certificate = setup.options.certificate;
  MUSTER_ASSIGN_OR_RETURN(options.secret, ReadSecret(socket_.get()));
  Result<std::unique_ptr<client::Client>> client = client::Client::Create(options);
  Wipe(&options.secret);
  if (!client.ok()) return client.status();
  client_ = std::move(client).value();
  setup.findings = CheckNodeWithin(NodeCheckOf(setup.options, setup.environment, setup.place),
                                   kNodeCheckLimit, {signals_.get(), socket_.get()});
  for (const std::string& warning : setup.findings.warnings) LogWarning(warning);
  if (setup.findings.problem) {
    LogError(Concat(setup.place.node, " cannot take part: ", setup.findings.problem->text));
  }
  return setup;
}

void Process::OnSignals() {
  signalfd_siginfo info{};
  while (read(signals_.get(), &info, sizeof(info)) == static_cast<ssize_t>(sizeof(info))) {
    const int number = static_cast<int>(info.ssi_signo);
    if (number == SIGCHLD) {
      supervisor_->OnChildren();
    } else if (number == SIGTERM || number == SIGINT || number == SIGHUP) {
      supervisor_->OnStop(
          Concat("the agent got signal ", number, " (SIG", sigabbrev_np(number), ")"));
    } else {
      supervisor_->OnSignal(number);
    }
  }
}

void Process::OnKeeper() {
  char byte = 0;
  const ssize_t count = recv(socket_.get(), &byte, 1, MSG_DONTWAIT);
  if (count > 0 || (count < 0 && (errno == EAGAIN || errno == EINTR))) return;
  // Nobody would find what is left behind: end all of it, then this.
  KillDescendants(getpid(), kKillLimit);
  supervisor_->FinishOutput(kOutputLimit);
  RemoveAgentFolders(arguments_.folders);
  RemoveLock();
  LogError("the agent's keeper died; its supervisor has ended all workers and ends too");
  _exit(1);
}

// The dead keeper's lock file: taken and removed, unless a new agent has it. The kernel may let go
// of the lock a moment after it closed the socket.
void Process::RemoveLock() {
  const Result<std::string> folder = UserFolder();
  const TimePoint until = SteadyNow() + kLockLimit;
  while (folder.ok() && !NodeLock::Take(*folder, run_id_, key_).ok() && SteadyNow() < until) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

void Process::CheckParent() {
  const std::optional<ProcessInfo> keeper = ReadProcess(arguments_.keeper);
  if (keeper && keeper->parent != arguments_.grandparent && !parent_gone_) {
    parent_gone_ = true;
    supervisor_->OnParentGone();
  }
  loop_.After(kParentPause, [this] { CheckParent(); });
}

int Process::Run() {
  Result<SupervisorSetup> setup = Setup();
  if (!setup.ok()) {
    LogError(setup.status().message());
    const bool usage = setup.status().code() == StatusCode::kInvalidArgument;
    return usage ? exit_code::kUsage : 1;
  }
  run_id_ = setup->options.run_id;
  key_ = {setup->place.node, setup->place.step_id, setup->place.task_id};
  supervisor_ = std::make_unique<Supervisor>(&loop_, client_.get(), std::move(setup).value());
  loop_.WatchReadable(signals_.get(), [this] { OnSignals(); });
  loop_.WatchReadable(socket_.get(), [this] { OnKeeper(); });
  CheckParent();
  if (const Status status = supervisor_->Begin(); !status.ok()) {
    LogError(status.message());
    return 1;
  }
  const Status ran = loop_.Run();
  if (!ran.ok()) LogError(ran.message());
  supervisor_->FinishOutput(kOutputLimit);
  if (!supervisor_->exit_reason().empty()) LogWarning(supervisor_->exit_reason());
  const int code = supervisor_->exit_code().value_or(1);
  supervisor_.reset();
  client_.reset();
  return ran.ok() ? code : 1;
}

}  // namespace

int SupervisorMain(std::vector<std::string> arguments) {
  const Result<SupervisorArguments> parsed = SupervisorArgumentsFrom(arguments);
  if (!parsed.ok()) {
    LogError(parsed.status().message());
    return exit_code::kUsage;
  }
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  const int signals = SignalDescriptor();
  const int farewell = dup(parsed->socket);
  fcntl(farewell, F_SETFD, FD_CLOEXEC);
  fcntl(parsed->socket, F_SETFD, FD_CLOEXEC);
  const int code = Process(*parsed, signals).Run();
  const Status told = WriteAll(farewell, Concat("exit ", code, "\n"));
  if (!told.ok()) LogDebug(told.message());
  return code;
}

}  // namespace muster::agent
