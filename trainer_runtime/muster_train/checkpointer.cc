#include "trainer_runtime/muster_train/checkpointer.h"

#include <algorithm>
#include <filesystem>
#include <limits>
#include <system_error>
#include <utility>

#include "checkpoint/reader.h"
#include "checkpoint/writer.h"
#include "common/log.h"
#include "common/text.h"
#include "trainer_runtime/train/state_checkpoint.h"

namespace muster::train_program {
Checkpointer::Checkpointer(const Options& options, std::string run_id,
                           std::function<void(const Saved&)> saved)
    : folder_(options.checkpoint_dir),
      run_id_(std::move(run_id)),
      model_(options.model),
      kept_(options.checkpoints_kept),
      saved_(std::move(saved)) {
  thread_ = std::jthread([this] { Run(); });
}

Checkpointer::~Checkpointer() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
}

Status Checkpointer::Prepare(std::uint64_t from_step) {
  std::error_code error;
  std::filesystem::create_directories(folder_, error);
  if (error) {
    return FromErrno(error.value(), Concat("cannot make the checkpoint folder ", Quote(folder_)));
  }
  return checkpoint::RemoveLeftovers(checkpoint::SystemFiles(), folder_, run_id_, from_step)
      .status();
}

void Checkpointer::Save(Replica& replica, std::uint32_t world_size) {
  const TimePoint start = SteadyNow();
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return !busy_; });
  snapshot_.progress = replica.progress();
  snapshot_.world_size = world_size;
  tensors_.assign(replica.tensors().begin(), replica.tensors().end());
  const training::TrainingArrays live = replica.arrays();
  for (std::size_t i = 0; i < snapshot_.buffers.size(); ++i) {
    snapshot_.buffers[i].Reserve(live.all()[i].size());
    std::ranges::copy(live.all()[i], snapshot_.buffers[i].data());
  }
  snapshot_.arrays = live;
  snapshot_.arrays.parameters = snapshot_.buffers[0].span();
  snapshot_.arrays.first_moment = snapshot_.buffers[1].span();
  snapshot_.arrays.second_moment = snapshot_.buffers[2].span();
  snapshot_.stall = SteadyNow() - start;
  busy_ = true;
  lock.unlock();
  changed_.notify_all();
}

Status Checkpointer::WaitSaved() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return !busy_; });
  return last_;
}

std::optional<std::uint64_t> Checkpointer::newest_durable() const {
  const std::lock_guard lock(mutex_);
  if (durable_.empty()) return std::nullopt;
  return *durable_.rbegin();
}

void Checkpointer::Run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return stop_ || busy_; });
    if (!busy_) return;
    lock.unlock();
    Saved saved{snapshot_.progress.step, {}, snapshot_.stall, {}};
    const TimePoint start = SteadyNow();
    saved.status = Write();
    saved.write = SteadyNow() - start;
    if (saved.status.ok()) PruneOld(saved.step);
    saved_(saved);
    lock.lock();
    last_ = saved.status;
    if (last_.ok()) durable_.insert(saved.step);
    busy_ = false;
    changed_.notify_all();
  }
}

Status Checkpointer::Write() {
  const auto written =
      training::SaveState(checkpoint::SystemFiles(), folder_, run_id_, snapshot_.world_size,
                          snapshot_.progress, tensors_, snapshot_.arrays);
  // The same step of the same run, saved before a failure and now again.
  if (written.status().code() == StatusCode::kAlreadyExists) return OkStatus();
  return written.status();
}

void Checkpointer::PruneOld(std::uint64_t step) {
  checkpoint::PruneOptions options;
  options.keep = kept_;
  {
    const std::lock_guard lock(mutex_);
    options.known_good = durable_;
  }
  options.known_good.insert(step);
  const auto report = checkpoint::Prune(checkpoint::SystemFiles(), folder_, run_id_, options);
  if (!report.ok()) LogWarning(Concat("older checkpoints stay: ", report.status().message()));
  // Writers that died before this step: each left as much as a whole checkpoint.
  const auto left = checkpoint::RemoveLeftovers(checkpoint::SystemFiles(), folder_, run_id_, step);
  if (!left.ok()) LogWarning(Concat("leftovers stay: ", left.status().message()));
}

Result<std::optional<checkpoint::FoundEntry>> Checkpointer::FindNewest() const {
  auto found = checkpoint::NewestVerified(folder_, run_id_);
  if (found.status().code() == StatusCode::kNotFound) {
    return std::optional<checkpoint::FoundEntry>();
  }
  if (!found.ok()) return found.status();
  for (const checkpoint::SkippedEntry& skipped : found->skipped) {
    LogWarning(
        Concat("checkpoint ", skipped.entry.path, " is passed over: ", skipped.reason.message()));
  }
  return std::optional(std::move(found).value());
}

Status Checkpointer::Load(const std::string& entry, bool verified, Replica* replica) {
  replica->DropState();
  MUSTER_ASSIGN_OR_RETURN(const checkpoint::Manifest manifest, checkpoint::ReadManifest(entry));
  const auto progress =
      training::LoadState(entry, manifest, replica->tensors(), replica->arrays(),
                          verified ? checkpoint::ReadCheck::kNone : checkpoint::ReadCheck::kDigest);
  if (progress.status().code() == StatusCode::kFailedPrecondition) {
    return FailedPrecondition(Concat(progress.status().message(), " than --model ", model_,
                                     " has; choose another --model or --checkpoint-dir"));
  }
  if (!progress.ok()) return progress.status();
  replica->SetState(*progress, std::numeric_limits<double>::quiet_NaN());
  const training::TrainingProgress& now = replica->progress();
  if (verified && progress->corpus != now.corpus) {
    LogWarning(Concat("checkpoint ", entry,
                      " was made with other --data; the order of its samples "
                      "is not gone on with"));
  }
  if (verified && progress->global_batch != now.global_batch) {
    LogWarning(Concat("checkpoint ", entry, " was made with --batch ", progress->global_batch,
                      ", now it is ", now.global_batch));
  }
  const std::lock_guard lock(mutex_);
  durable_.insert(manifest.step);
  return OkStatus();
}

}  // namespace muster::train_program
