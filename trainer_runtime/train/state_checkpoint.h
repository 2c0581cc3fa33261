#pragma once

// The training state as a checkpoint entry and back.
//
// Arrays are stored tensor by tensor under "parameter/NAME", "first_moment/NAME" and
// "second_moment/NAME", each with the range of it that the shard holds: any partition can be read
// into any other. The numbers of TrainingProgress are the manifest's scalars.

#include <map>
#include <string>
#include <vector>

#include "checkpoint/manifest.h"
#include "checkpoint/reader.h"
#include "checkpoint/writer.h"
#include "common/status.h"
#include "trainer_runtime/train/training_state.h"

namespace muster::training {

std::map<std::string, checkpoint::Scalar> ProgressToScalars(const TrainingProgress& progress);
// DataLoss: a number is missing, of the wrong kind, or senseless.
Result<TrainingProgress> ProgressFromScalars(
    const std::map<std::string, checkpoint::Scalar>& scalars);

// This process's shard. It points into `arrays`: a snapshot that stays as it is while it is
// written. REQUIRES the table that the arrays were made for.
checkpoint::ShardSource MakeStateShard(std::string name, std::span<const models::Tensor> tensors,
                                       const TrainingArrays& arrays);

// One process saves all of it. Errors: checkpoint::WriteEntry's.
Result<std::string> SaveState(checkpoint::FileOperations& files, const std::string& folder,
                              const std::string& run, std::uint64_t world_size,
                              const TrainingProgress& progress,
                              std::span<const models::Tensor> tensors,
                              const TrainingArrays& arrays);

// Fills `arrays` with their range of a verified entry, whatever world wrote it. FailedPrecondition:
// another model's. Else checkpoint::ReadTensors' errors; after any, the arrays hold nothing of
// worth.
Result<TrainingProgress> LoadState(const std::string& entry, const checkpoint::Manifest& manifest,
                                   std::span<const models::Tensor> tensors,
                                   const TrainingArrays& arrays,
                                   checkpoint::ReadCheck check = checkpoint::ReadCheck::kDigest);

}  // namespace muster::training
