#include "launcher/cli/operate.h"

#include <unistd.h>

#include <filesystem>

#include "common/log.h"
#include "common/text.h"
#include "launcher/cli/daemon_call.h"
#include "launcher/cli/find_run.h"
#include "launcher/cli/job_command.h"
#include "launcher/config/option_table.h"
#include "launcher/host/view_watch.h"
#include "proto/environment.h"

namespace muster::cli {
namespace {

// A daemon that restarts is back within it.
constexpr Duration kOperateDeadline = std::chrono::seconds(10);

// "muster cancel by ada on login1": stands in the verdict.
std::string Reason(const JobCommand& command, std::string_view verb) {
  std::string user(slurm::Lookup(command.context.environment, "USER"));
  if (user.empty()) user = Concat("uid ", geteuid());
  return Concat("muster ", verb, " by ", user, " on ", command.context.host_name);
}

std::string Place(const protocol::RunView& view, const host::OperatorAccess& access) {
  return Concat("attempt ", view.fence.attempt, " round ", view.fence.round, ", ", view.phase,
                ", world size ", view.world_size, ", its daemon on ", access.host);
}

// What a run without a daemon is.
std::string Ended(const std::string& folder) {
  const std::string title = RunTitle(folder);
  const auto verdict = host::NewestVerdict({folder});
  if (!verdict.ok()) return Concat(title, " does not run; ", verdict.status().message());
  if (!*verdict) return Concat(title, " has no living daemon and no verdict");
  const protocol::Verdict& end = (*verdict)->verdict;
  const std::string said = Concat(title, " does not run: ", host::VerdictSentence(end));
  const std::string job = JobOf(folder);
  const bool later = end.outcome == protocol::Outcome::kGoesOnLater && !job.empty();
  return later ? Concat(said, "; `scancel ", job, "` takes its job out of the queue") : said;
}

Status AskToOperate(const Operation& operation, const host::OperatorAccess& access,
                    const std::string& reason) {
  return CallDaemon(access, [&](client::Client& client) {
    return client.Operate({operation.action, reason}, kOperateDeadline);
  });
}

int Refused(const Status& status) {
  LogError(status.message());
  return kNoAnswer;
}

}  // namespace

Result<std::string> ChooseRunning(const std::string& verb,
                                  const std::vector<std::string>& folders) {
  std::vector<std::string> running;
  std::vector<std::string> names;
  for (const std::string& folder : folders) {
    if (!LooksRunning(folder)) continue;
    running.push_back(folder);
    names.push_back(std::filesystem::path(folder).filename().string());
  }
  if (running.empty()) {
    return FailedPrecondition(Concat("nothing to ", verb, ": ", Ended(folders.back())));
  }
  if (running.size() > 1) {
    return FailedPrecondition(Concat(running.size(), " runs are running: ", Join(names, ", "),
                                     "; choose the one to ", verb, " with --name"));
  }
  return running.front();
}

Status CheckAllowed(const Operation& operation, const protocol::RunView& view) {
  if (view.verdict.outcome != protocol::Outcome::kNone &&
      view.verdict.outcome != protocol::Outcome::kGoesOnLater) {
    return FailedPrecondition(
        Concat("it is ending already: ", host::VerdictSentence(view.verdict)));
  }
  if (operation.action != protocol::OperatorAction::kRestart) return OkStatus();
  if (view.phase == "active" || view.phase == "preparing") return OkStatus();
  return FailedPrecondition(Concat("no round runs that could be restarted: the run is ", view.phase,
                                   view.waiting_for.empty() ? "" : ", ", view.waiting_for));
}

std::string Instead(const std::string& run_folder, const host::OperatorAccess& access) {
  const std::string job = JobOf(run_folder);
  if (!job.empty()) return Concat("`scancel ", job, "` ends the job without it");
  return Concat("`kill ", access.pid, "` on ", access.host, " ends `muster run` without it");
}

int Operate(const Operation& operation, const Words& words) {
  JobCommand command;
  if (const auto over = BeginJobCommand(operation.command, words, &command)) return *over;
  const std::string verb(config::CommandName(operation.command));
  const Result<std::string> folder = ChooseRunning(verb, command.folders);
  if (!folder.ok()) return Refused(folder.status());
  const std::string title = RunTitle(*folder);
  const Result<host::OperatorAccess> access = host::ReadOperatorAccess({*folder});
  if (!access.ok()) return Refused(access.status().With(title));
  const Result<protocol::RunView> view = AskDaemon(*access);
  if (!view.ok()) {
    return Refused(Unavailable(Concat(title, ": its daemon on ", access->host,
                                      " does not answer, nothing was done (",
                                      view.status().message(), "); ", Instead(*folder, *access))));
  }
  if (const Status allowed = CheckAllowed(operation, *view); !allowed.ok()) {
    return Refused(allowed.With(title));
  }
  LogInfo(Concat(verb, " ", title, " (", Place(*view, *access), "): ", operation.effect));
  const Status done = AskToOperate(operation, *access, Reason(command, verb));
  if (!done.ok()) {
    return Refused(Unavailable(Concat(title, ": whether the daemon has accepted is not known (",
                                      done.message(), "); look with `muster why`, or ",
                                      Instead(*folder, *access))));
  }
  LogInfo(Concat("accepted by the daemon on ", access->host));
  return exit_code::kDone;
}

}  // namespace muster::cli
