#include "trainer_runtime/muster_train/run.h"

#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "common/log.h"
#include "common/text.h"
#include "proto/environment.h"
#include "trainer_runtime/comm/gloo_group.h"
#include "trainer_runtime/comm/nccl_group.h"
#include "trainer_runtime/models/matrix.h"
#include "trainer_runtime/muster_train/recovery.h"
#include "trainer_runtime/muster_train/stop_wish.h"
#include "trainer_runtime/muster_train/trainer.h"
#include "trainer_runtime/session/session.h"

namespace muster::train_program {
namespace {

using comm::ProcessGroup;

// Nodes may take this long to be replaced; the agent ends us sooner if it gives up.
constexpr Duration kRoundTimeout = std::chrono::hours(24);
// From a broken communicator to the round's end: the agent hears of the cause, or of ours.
constexpr Duration kEndingTimeout = std::chrono::minutes(10);
// How often a wait looks whether a signal has come.
constexpr Duration kLook = std::chrono::milliseconds(100);
constexpr int kSignalBase = 128;
constexpr int kFailed = 1;

int MatrixThreadsFromEnvironment() {
  const char* text = std::getenv("OMP_NUM_THREADS");
  if (text == nullptr) return 1;
  return ParseInteger<int>("OMP_NUM_THREADS", text, 1, 1024).value_or(1);
}

// What a broken group gives; NCCL's own troubles are internal ones. The rest is this program's.
bool IsOfGroup(const Status& status) {
  const StatusCode code = status.code();
  return code == StatusCode::kAborted || code == StatusCode::kUnavailable ||
         code == StatusCode::kDeadlineExceeded || code == StatusCode::kInternal ||
         code == StatusCode::kUnknown;
}

class Process {
 public:
  Process(const Options& options, session::Session& session, const training::Corpus& corpus,
          Replica replica)
      : options_(options),
        session_(session),
        reporter_(options),
        replica_(std::move(replica)),
        corpus_(corpus) {}

  int Run() {
    while (true) {
      const auto info = WaitForRound();
      if (!info.ok()) return Fail(info.status());
      if (!info->has_value()) return kSignalBase + StopSignal();
      if (const auto exit_code = OneRound(**info)) return *exit_code;
    }
  }

 private:
  int Fail(const Status& status) {
    LogError(Concat("muster-train: ", status.ToString()));
    return kFailed;
  }

  // Nothing: a signal came instead.
  Result<std::optional<session::RoundInfo>> WaitForRound() {
    const TimePoint deadline = SteadyNow() + kRoundTimeout;
    while (true) {
      auto info = session_.WaitForRound(round_, kLook);
      if (info.ok()) return std::optional(std::move(info).value());
      if (info.status().code() != StatusCode::kDeadlineExceeded || SteadyNow() >= deadline) {
        return info.status();
      }
      if (StopSignal() != 0) return std::optional<session::RoundInfo>();
    }
  }

  Result<std::unique_ptr<ProcessGroup>> MakeGroup(const session::RoundInfo& info) {
    if (options_.backend == "nccl") {
      comm::NcclOptions nccl;
      nccl.nccl_library = options_.nccl_library;
      nccl.operation_timeout = options_.collective_timeout;
      return comm::CreateNcclGroup(session_, info, nccl);
    }
    comm::GlooOptions gloo;
    gloo.transfer_timeout = options_.collective_timeout;
    return comm::CreateGlooGroup(session_, info, gloo);
  }

  // The exit code, or nothing: the round ended and another one comes.
  std::optional<int> OneRound(const session::RoundInfo& info) {
    round_ = session::IdOf(info);
    if (checkpointer_ == nullptr) {
      checkpointer_ = std::make_unique<Checkpointer>(
          options_, info.run_id.empty() ? "standalone" : info.run_id,
          [this](const Saved& saved) { reporter_.Checkpoint(saved); });
    }
    Status status = session_.Progress(session::Phase::kInit, LastStep());
    auto group = MakeGroup(info);
    if (group.ok()) {
      const auto finished = InGroup(info, **group);
      if (finished.ok()) return *finished;
      status = finished.status();
      // Not the group's fault: ours, and it would come again. A peer that failed for the same
      // reason may have left already, so the group's state alone does not tell.
      if ((*group)->state().ok() || !IsOfGroup(status)) return Fail(status);
      group->reset();
    } else {
      status = group.status();
    }
    return LeaveRound(status);
  }

  std::int64_t LastStep() const {
    return replica_.has_state() ? static_cast<std::int64_t>(replica_.step()) : -1;
  }

  Result<int> InGroup(const session::RoundInfo& info, ProcessGroup& group) {
    if (info.rank == 0 && !replica_.has_state()) {
      MUSTER_RETURN_IF_ERROR(checkpointer_->Prepare(0));
    }
    reporter_.EnterRound(info, replica_.model().parameters().size());
    MUSTER_ASSIGN_OR_RETURN(const Origin origin,
                            AgreeOnState(group, options_, *checkpointer_, &replica_));
    reporter_.Resume(origin.text, replica_.step(), replica_.last_loss());
    Trainer trainer(options_, corpus_, session_, reporter_, *checkpointer_, replica_, group);
    MUSTER_ASSIGN_OR_RETURN(const bool all_done, trainer.Run());
    return Finish(group, all_done);
  }

  // All ranks are at the same step; nobody leaves before the last checkpoint is durable.
  Result<int> Finish(ProcessGroup& group, bool all_done) {
    const std::uint64_t step = replica_.step();
    MUSTER_RETURN_IF_ERROR(
        session_.Progress(session::Phase::kCheckpoint, static_cast<std::int64_t>(step)));
    Status saved;
    if (group.rank() == 0) {
      saved = checkpointer_->WaitSaved();
      if (checkpointer_->newest_durable() != step) {
        checkpointer_->Save(replica_, static_cast<std::uint32_t>(group.size()));
        saved = checkpointer_->WaitSaved();
      }
    }
    MUSTER_RETURN_IF_ERROR(group.Barrier().Wait());
    // After a notice, an end with 0 would count as stopped only.
    if (all_done && (StopSignal() != 0 || session_.stop_order())) {
      const Status told = session_.Request(session::RequestKind::kDone, "all steps are finished");
      if (!told.ok()) LogWarning(Concat("the agent was not told of the end: ", told.message()));
    }
    if (group.rank() == 0 || options_.print_digest) {
      reporter_.Line(Concat("weights digest: ", replica_.WeightsDigest().ToHex()));
    }
    if (group.rank() == 0 && !all_done) TellStop(step);
    group.Close();
    return saved.ok() ? 0 : kFailed;
  }

  // All ranks end with 0 now, and the run must not count as done. Who ordered the stop knows.
  void TellStop(std::uint64_t step) {
    const auto wanted = WantsStop(session_, step);
    const std::string reason = Concat("stopped after step ", step, " of ", options_.steps, ": ",
                                      wanted ? *wanted : "another rank was told to");
    reporter_.Line(reason);
    if (session_.alone() || session_.stop_order()) return;
    const Status told = session_.Request(session::RequestKind::kStop, reason);
    if (!told.ok()) LogWarning(Concat("the agent was not told of the stop: ", told.message()));
  }

  std::optional<int> LeaveRound(const Status& status) {
    if (status.code() != StatusCode::kAborted) {
      LogWarning(Concat("rank left ", session::ToString(round_), ": ", status.message()));
      const Status told = session_.Broken(round_, status.message());
      if (!told.ok()) return Fail(told);
    }
    const TimePoint deadline = SteadyNow() + kEndingTimeout;
    while (session_.RoundState().ok() && IsCurrent()) {
      if (StopSignal() != 0) return kSignalBase + StopSignal();
      if (session_.alone() || SteadyNow() >= deadline) return Fail(status);
      session_.WaitForEnd(round_, kLook);
    }
    const Status told = session_.Quiesced(round_, LastStep());
    if (!told.ok()) return Fail(told);
    return std::nullopt;
  }

  bool IsCurrent() const {
    const auto info = session_.CurrentRound();
    return info && session::IdOf(*info) == round_;
  }

  const Options& options_;
  session::Session& session_;
  Reporter reporter_;
  Replica replica_;
  const training::Corpus& corpus_;
  std::unique_ptr<Checkpointer> checkpointer_;  // uses the reporter
  session::RoundId round_;
};

}  // namespace

int Run(const Options& options) {
  CatchStopSignals();
  models::SetMatrixThreads(MatrixThreadsFromEnvironment());
  const auto fail = [](const Status& status) {
    LogError(Concat("muster-train: ", status.message()));
    return status.code() == StatusCode::kUnavailable ? kFailed : exit_code::kUsage;
  };
  const auto config = models::FindGptPreset(options.model);
  if (!config.ok()) return fail(config.status());
  const auto corpus = training::Corpus::Open(options.data, config->context);
  if (!corpus.ok()) return fail(corpus.status());
  auto replica = Replica::Create(options, *config, corpus->fingerprint());
  if (!replica.ok()) return fail(replica.status());

  session::Options session_options = session::OptionsFromEnvironment();
  session_options.can_reform = true;
  if (session_options.socket_path.empty() && std::getenv("WORLD_SIZE") != nullptr) {
    LogWarning(
        "WORLD_SIZE is set but MUSTER_AGENT_SOCKET is not: this is a world of one; start "
        "with muster run");
  }
  auto session = session::Session::Connect(session_options);
  if (!session.ok()) return fail(session.status());
  return Process(options, **session, *corpus, std::move(replica).value()).Run();
}

}  // namespace muster::train_program
