#include "trainer_runtime/train/state_checkpoint.h"

#include <algorithm>
#include <array>
#include <functional>
#include <utility>

#include "common/check.h"
#include "common/text.h"

namespace muster::training {

namespace {

constexpr std::array<std::string_view, 3> kPrefixes = {"parameter/", "first_moment/",
                                                       "second_moment/"};

// Every scalar under its name in the manifest.
template <typename Progress, typename Visit>
void ForEachScalar(Progress& progress, Visit visit) {
  visit("step", progress.step);
  visit("updates", progress.updates);
  visit("seed", progress.cursor.seed);
  visit("samples_consumed", progress.cursor.samples_consumed);
  visit("global_batch", progress.global_batch);
  visit("learning_rate.peak", progress.schedule.peak);
  visit("learning_rate.minimum", progress.schedule.minimum);
  visit("learning_rate.warmup_steps", progress.schedule.warmup_steps);
  visit("learning_rate.total_steps", progress.schedule.total_steps);
  visit("adamw.beta1", progress.optimizer.beta1);
  visit("adamw.beta2", progress.optimizer.beta2);
  visit("adamw.epsilon", progress.optimizer.epsilon);
  visit("adamw.weight_decay", progress.optimizer.weight_decay);
  visit("model", progress.model);
  visit("corpus", progress.corpus);
}

checkpoint::Scalar ToScalar(std::uint64_t value) { return value; }
checkpoint::Scalar ToScalar(double value) { return value; }
checkpoint::Scalar ToScalar(const checkpoint::Digest& value) { return value.ToHex(); }

template <typename T>
Status FromScalar(const checkpoint::Scalar& scalar, T& value) {
  if (const T* found = std::get_if<T>(&scalar)) {
    value = *found;
    return OkStatus();
  }
  return DataLoss("is of another kind");
}
Status FromScalar(const checkpoint::Scalar& scalar, checkpoint::Digest& value) {
  const std::string* text = std::get_if<std::string>(&scalar);
  if (text == nullptr) return DataLoss("is not a digest");
  auto digest = checkpoint::Digest::FromHex(*text);
  if (!digest.ok()) return DataLoss(digest.status().message());
  value = *digest;
  return OkStatus();
}

// Calls visit(tensor record, first element in the arrays, count) for each stored tensor's part that
// lies in the arrays' range, array after array in memory order.
void ForEachPart(std::span<const models::Tensor> tensors, const TrainingArrays& arrays,
                 const std::function<void(const checkpoint::TensorRecord&, std::size_t array,
                                          std::size_t begin)>& visit) {
  const std::size_t last = arrays.first + arrays.parameters.size();
  for (std::size_t array = 0; array < kPrefixes.size(); ++array) {
    MUSTER_CHECK(arrays.all()[array].size() == arrays.parameters.size(),
                 "the three arrays have the same size");
    for (const models::Tensor& tensor : tensors) {
      const std::size_t begin = std::max(tensor.offset, arrays.first);
      const std::size_t end = std::min(tensor.offset + tensor.count, last);
      if (begin >= end) continue;
      checkpoint::TensorRecord record;
      record.name = Concat(kPrefixes[array], tensor.name);
      record.shape.assign(tensor.shape.begin(), tensor.shape.end());
      record.first = begin - tensor.offset;
      record.count = end - begin;
      visit(record, array, begin - arrays.first);
    }
  }
}

}  // namespace

std::map<std::string, checkpoint::Scalar> ProgressToScalars(const TrainingProgress& progress) {
  std::map<std::string, checkpoint::Scalar> scalars;
  ForEachScalar(progress,
                [&](const char* name, const auto& value) { scalars[name] = ToScalar(value); });
  return scalars;
}

Result<TrainingProgress> ProgressFromScalars(
    const std::map<std::string, checkpoint::Scalar>& scalars) {
  TrainingProgress progress;
  Status status;
  ForEachScalar(progress, [&](const char* name, auto& value) {
    if (!status.ok()) return;
    const auto found = scalars.find(name);
    status = found == scalars.end() ? DataLoss("is missing") : FromScalar(found->second, value);
    if (!status.ok()) status = DataLoss(Concat("scalar ", name, " ", status.message()));
  });
  if (status.ok()) status = Validate(progress.schedule);
  if (status.ok()) status = Validate(progress.optimizer);
  if (status.ok()) return progress;
  return DataLoss("the checkpoint's training state is senseless: " + status.message());
}

checkpoint::ShardSource MakeStateShard(std::string name, std::span<const models::Tensor> tensors,
                                       const TrainingArrays& arrays) {
  checkpoint::ShardSource shard{std::move(name), {}};
  ForEachPart(tensors, arrays,
              [&](const checkpoint::TensorRecord& record, std::size_t array, std::size_t begin) {
                const auto part = arrays.all()[array].subspan(begin, record.count);
                shard.tensors.push_back({record, std::as_bytes(part)});
              });
  return shard;
}

Result<std::string> SaveState(checkpoint::FileOperations& files, const std::string& folder,
                              const std::string& run, std::uint64_t world_size,
                              const TrainingProgress& progress,
                              std::span<const models::Tensor> tensors,
                              const TrainingArrays& arrays) {
  checkpoint::Manifest manifest;
  manifest.run = run;
  manifest.step = progress.step;
  manifest.world_size = world_size;
  manifest.scalars = ProgressToScalars(progress);
  const checkpoint::ShardSource shard = MakeStateShard("state.shard", tensors, arrays);
  return checkpoint::WriteEntry(files, folder, std::move(manifest), std::span(&shard, 1));
}

Result<TrainingProgress> LoadState(const std::string& entry, const checkpoint::Manifest& manifest,
                                   std::span<const models::Tensor> tensors,
                                   const TrainingArrays& arrays, checkpoint::ReadCheck check) {
  MUSTER_ASSIGN_OR_RETURN(const TrainingProgress progress, ProgressFromScalars(manifest.scalars));
  if (progress.model != ModelFingerprint(tensors)) {
    return FailedPrecondition(Concat(entry, " is of a model with other tensors"));
  }
  std::vector<checkpoint::TensorDestination> destinations;
  ForEachPart(tensors, arrays,
              [&](const checkpoint::TensorRecord& record, std::size_t array, std::size_t begin) {
                const auto part = arrays.all()[array].subspan(begin, record.count);
                destinations.push_back({record.name, record.type, record.shape, record.first,
                                        std::as_writable_bytes(part)});
              });
  MUSTER_RETURN_IF_ERROR(checkpoint::ReadTensors(entry, manifest, destinations, check));
  return progress;
}

}  // namespace muster::training
