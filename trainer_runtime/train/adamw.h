#pragma once

// AdamW on flat buffers: Adam's moments with weight decay apart from the gradient (Loshchilov and
// Hutter, "Decoupled Weight Decay Regularization", 2019, algorithm 2), in one pass over memory.
//
// It may own any range of the parameters, so a partitioned optimizer is several of these. Memory is
// allocated when it is made, never in a step. Element by element in a fixed order of operations:
// the same inputs give the same bits on every processor. Thread-compatible.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/status.h"
#include "trainer_runtime/models/buffer.h"
#include "trainer_runtime/models/tensor_table.h"

namespace muster::training {

struct AdamWConfig {
  double beta1 = 0.9;
  double beta2 = 0.95;  // as language models are trained; 0.999 forgets a spike too slowly
  double epsilon = 1e-8;
  // Applied to tensors of two dimensions and more only: norms and biases have no scale to lose.
  double weight_decay = 0.1;

  friend bool operator==(const AdamWConfig&, const AdamWConfig&) = default;
};

// InvalidArgument naming the field.
Status Validate(const AdamWConfig& config);

class AdamW {
 public:
  // For elements [first, first + count) of the flat buffer that `tensors` describes.
  // InvalidArgument: a bad configuration, or a range that is not in the buffer.
  static Result<AdamW> Create(const AdamWConfig& config, std::span<const models::Tensor> tensors,
                              std::size_t first, std::size_t count);

  std::size_t first() const { return first_; }
  std::size_t count() const { return first_moment_.size(); }
  const AdamWConfig& config() const { return config_; }

  // One update. Both spans are this optimizer's range: count() elements. Gradients are multiplied
  // with gradient_factor (clipping) as they are read, and not changed.
  void Step(double learning_rate, double gradient_factor, std::span<float> parameters,
            std::span<const float> gradients);

  // Updates so far; with the moments it is the optimizer's whole state.
  std::uint64_t updates() const { return updates_; }
  void set_updates(std::uint64_t updates) { updates_ = updates; }
  std::span<float> first_moment() { return first_moment_.span(); }
  std::span<const float> first_moment() const { return first_moment_.span(); }
  std::span<float> second_moment() { return second_moment_.span(); }
  std::span<const float> second_moment() const { return second_moment_.span(); }

 private:
  // Neighbours that are all decayed or all not; offsets from first_.
  struct Segment {
    std::size_t first, count;
    bool decayed;
  };

  AdamW(const AdamWConfig& config, std::span<const models::Tensor> tensors, std::size_t first,
        std::size_t count);

  AdamWConfig config_;
  std::size_t first_;
  std::vector<Segment> segments_;
  models::Buffer<float> first_moment_, second_moment_;
  std::uint64_t updates_ = 0;
};

}  // namespace muster::training
