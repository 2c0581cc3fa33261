#include "trainer_runtime/muster_train/checkpointer.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "checkpoint/reader.h"
#include "checkpoint/writer.h"
#include "common/log.h"
#include "common/text.h"

namespace muster::train_program {
namespace {

// The three buffers' names in an entry.
constexpr std::array<const char*, 3> kPrefixes{"", "adamw.moment1.", "adamw.moment2."};
constexpr char kLossName[] = "loss", kRecipeName[] = "recipe", kModelName[] = "model";

checkpoint::TensorRecord RecordOf(const models::Tensor& tensor, const char* prefix) {
  checkpoint::TensorRecord record;
  record.name = Concat(prefix, tensor.name);
  record.shape.assign(tensor.shape.begin(), tensor.shape.end());
  record.count = tensor.count;
  return record;
}

}  // namespace

Checkpointer::Checkpointer(const Options& options, std::string run_id,
                           std::function<void(const Saved&)> saved)
    : folder_(options.checkpoint_dir),
      run_id_(std::move(run_id)),
      recipe_(Recipe(options)),
      model_(options.model),
      seed_(options.seed),
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
  snapshot_.step = replica.position().step;
  snapshot_.loss = replica.position().last_loss;
  snapshot_.world_size = world_size;
  tensors_.assign(replica.model().tensors().begin(), replica.model().tensors().end());
  const auto buffers = replica.buffers();
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    snapshot_.buffers[i].Reserve(buffers[i].size());
    std::ranges::copy(buffers[i], snapshot_.buffers[i].data());
  }
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
    Saved saved{snapshot_.step, {}, snapshot_.stall, {}};
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
  checkpoint::Manifest manifest;
  manifest.run = run_id_;
  manifest.step = snapshot_.step;
  manifest.world_size = snapshot_.world_size;
  manifest.scalars[kLossName] = snapshot_.loss;
  manifest.scalars[kRecipeName] = recipe_;
  manifest.scalars[kModelName] = model_;
  manifest.scalars["seed"] = seed_;
  checkpoint::ShardSource shard;
  shard.name = "rank-0.shard";
  for (std::size_t i = 0; i < kPrefixes.size(); ++i) {
    for (const models::Tensor& tensor : tensors_) {
      shard.tensors.push_back({RecordOf(tensor, kPrefixes[i]),
                               std::as_bytes(std::span<const float>(
                                   snapshot_.buffers[i].data() + tensor.offset, tensor.count))});
    }
  }
  const auto written = checkpoint::WriteEntry(checkpoint::SystemFiles(), folder_,
                                              std::move(manifest), std::span(&shard, 1));
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
  const auto text = [&](const char* name) {
    const auto place = manifest.scalars.find(name);
    const auto* value =
        place == manifest.scalars.end() ? nullptr : std::get_if<std::string>(&place->second);
    return value != nullptr ? *value : std::string();
  };
  if (text(kModelName) != model_) {
    return FailedPrecondition(Concat("checkpoint ", entry, " is of model ", Quote(text(kModelName)),
                                     ", this training is of ", Quote(model_),
                                     "; choose another --checkpoint-dir or --model"));
  }
  if (text(kRecipeName) != recipe_) {
    LogWarning(Concat("checkpoint ", entry, " was made with other options: ", text(kRecipeName),
                      "; now: ", recipe_));
  }
  const auto buffers = replica->buffers();
  std::vector<checkpoint::TensorDestination> destinations;
  for (std::size_t i = 0; i < kPrefixes.size(); ++i) {
    for (const models::Tensor& tensor : replica->model().tensors()) {
      checkpoint::TensorDestination destination;
      destination.name = Concat(kPrefixes[i], tensor.name);
      destination.shape.assign(tensor.shape.begin(), tensor.shape.end());
      destination.data = std::as_writable_bytes(buffers[i].subspan(tensor.offset, tensor.count));
      destinations.push_back(std::move(destination));
    }
  }
  MUSTER_RETURN_IF_ERROR(checkpoint::ReadTensors(
      entry, manifest, destinations,
      verified ? checkpoint::ReadCheck::kNone : checkpoint::ReadCheck::kDigest));
  Position position;
  position.step = manifest.step;
  if (const auto loss = manifest.scalars.find(kLossName); loss != manifest.scalars.end()) {
    if (const auto* value = std::get_if<double>(&loss->second)) position.last_loss = *value;
  }
  replica->SetState(position);
  const std::lock_guard lock(mutex_);
  durable_.insert(manifest.step);
  return OkStatus();
}

}  // namespace muster::train_program
