#pragma once

// Model: what the training loop knows of a network.
//
// One flat buffer of parameters, one of gradients with the same layout, and two passes. Same seed,
// inputs, kernels and matrix threads give the same bits. After the first step of the largest batch
// nothing is allocated. Thread-compatible: one thread drives a model.
//
// The scalar is a template parameter for one reason: the same code runs in double, where finite
// differences can prove the gradients. Training uses Model = BasicModel<float>.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "common/status.h"
#include "trainer_runtime/models/tensor_table.h"

namespace muster::models {

// `sequences` windows of length + 1 tokens, row-major [sequences, length + 1]. Position t predicts
// token t + 1. No sequences at all is allowed (a rank whose slice of the batch is empty).
struct Batch {
  std::span<const std::int32_t> tokens;
  std::size_t sequences = 0;
  std::size_t length = 0;
};

struct BackwardOptions {
  // Factor on the mean loss of this batch. Ranks whose slices differ in size pass their share of
  // the global batch, so that the sum over ranks is the gradient of the global mean.
  double scale = 1.0;
  // Adds to what gradients() holds instead of overwriting it (gradient accumulation).
  bool accumulate = false;
};

// Called in backward order with ranges of gradients() that are final: the first range ends at the
// buffer's end, each next one ends where the one before it began, the last begins at 0.
using GradientHook = std::function<void(std::size_t first_offset, std::size_t count)>;

template <typename Scalar>
class BasicModel {
 public:
  virtual ~BasicModel() = default;

  virtual std::span<Scalar> parameters() = 0;
  virtual std::span<Scalar> gradients() = 0;
  virtual std::span<const Tensor> tensors() const = 0;

  // Draws all parameters anew from `seed`, the same on every machine.
  virtual void Initialize(std::uint64_t seed) = 0;

  // Mean cross-entropy in nats over all sequences * length predictions; 0 for an empty batch.
  // InvalidArgument: sizes that do not fit the model, or a token outside the vocabulary.
  virtual Result<double> Forward(const Batch& batch) = 0;

  // Gradients of scale * (the last Forward's loss). The batch's tokens must still be there.
  // FailedPrecondition: no Forward since the last Backward. `hook` may be empty.
  virtual Status Backward(const BackwardOptions& options, const GradientHook& hook) = 0;
};

using Model = BasicModel<float>;

}  // namespace muster::models
