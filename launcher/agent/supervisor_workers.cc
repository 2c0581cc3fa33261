// The supervisor's side of its workers: what they are started with, and what their end means.

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/hex.h"
#include "common/log.h"
#include "common/text.h"
#include "launcher/agent/output_patterns.h"
#include "launcher/agent/supervisor.h"

namespace muster::agent {
namespace {

// As the daemon's limit for texts.
constexpr std::size_t kTextBytesMax = 4096;
// As a shell shows a program that could not be started.
constexpr int kNotStarted = 126;

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

}  // namespace muster::agent
