#pragma once

// Everything that a training run needs to go on: three flat arrays and a page of numbers; and the
// form in which a peer sends it to a newcomer.
//
// On the wire: a header of kStateHeaderBytes, then the bytes of parameters, first moment and second
// moment, straight out of the sender's memory and into the receiver's. The header has a digest of
// itself and of each array. Little-endian, as is every machine that muster runs on. Pure; the
// arrays must not change meanwhile.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "checkpoint/digest.h"
#include "common/status.h"
#include "trainer_runtime/models/tensor_table.h"
#include "trainer_runtime/train/adamw.h"
#include "trainer_runtime/train/learning_rate.h"
#include "trainer_runtime/train/sampler.h"

namespace muster::training {

struct TrainingProgress {
  std::uint64_t step = 0;     // steps done; the next one has this number
  std::uint64_t updates = 0;  // of the optimizer: fewer than steps where a step was left out
  DataCursor cursor;
  std::uint64_t global_batch = 0;  // samples a step
  LearningRateSchedule schedule;
  AdamWConfig optimizer;
  checkpoint::Digest model;   // ModelFingerprint
  checkpoint::Digest corpus;  // Corpus::fingerprint

  friend bool operator==(const TrainingProgress&, const TrainingProgress&) = default;
};

// Of the table's names and shapes: equal where parameters can be exchanged.
checkpoint::Digest ModelFingerprint(std::span<const models::Tensor> tensors);

// Elements [first, first + parameters.size()) of the flat buffers of `total` elements. All three
// arrays have the same size. The whole state has first 0 and `total` elements.
struct TrainingArrays {
  std::size_t first = 0;
  std::size_t total = 0;
  std::span<float> parameters;
  std::span<float> first_moment;
  std::span<float> second_moment;

  std::array<std::span<float>, 3> all() const { return {parameters, first_moment, second_moment}; }
  std::array<std::span<std::byte>, 3> bytes() const {
    return {std::as_writable_bytes(parameters), std::as_writable_bytes(first_moment),
            std::as_writable_bytes(second_moment)};
  }
};

struct StateHeader {
  TrainingProgress progress;
  std::uint64_t first = 0, count = 0, total = 0;  // of the arrays that follow, in elements
  std::array<checkpoint::Digest, 3> digests;

  friend bool operator==(const StateHeader&, const StateHeader&) = default;
};

inline constexpr std::size_t kStateHeaderBytes = 240;

// Reads all the arrays for their digests.
StateHeader DescribeState(const TrainingProgress& progress, const TrainingArrays& arrays);
std::array<std::byte, kStateHeaderBytes> EncodeStateHeader(const StateHeader& header);

// DataLoss: not a header, or a damaged one. FailedPrecondition: of another version of muster.
// Everything in it is checked for sense, nothing against this process: see CheckStateFits.
Result<StateHeader> DecodeStateHeader(std::span<const std::byte> bytes);
// FailedPrecondition unless the announced arrays have this model's fingerprint and these arrays'
// range: only then may the bytes be received into them.
Status CheckStateFits(const StateHeader& header, const checkpoint::Digest& model,
                      const TrainingArrays& arrays);
// After receiving. DataLoss naming the array: ask again, or another peer.
Status VerifyState(const StateHeader& header, const TrainingArrays& arrays);

}  // namespace muster::training
