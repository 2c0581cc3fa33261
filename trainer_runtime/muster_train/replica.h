#pragma once

// Replica: what every rank holds a copy of: weights, AdamW's moments, and how far they are.
//
// A replica is at a whole step or it has no state at all, never between: Apply is the only thing
// that moves it on. Thread-compatible.

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "checkpoint/digest.h"
#include "common/status.h"
#include "trainer_runtime/models/buffer.h"
#include "trainer_runtime/models/gpt.h"
#include "trainer_runtime/muster_train/options.h"

namespace muster::train_program {

// What decides the next step besides weights and moments.
struct Position {
  std::uint64_t step = 0;  // finished steps
  double last_loss = 0;    // of step `step`
};

class Replica {
 public:
  static Result<Replica> Create(const std::string& preset);

  models::Gpt& model() { return *model_; }
  bool has_state() const { return has_state_; }
  const Position& position() const { return position_; }

  void Initialize(std::uint64_t seed);
  // From here to SetState there is none: somebody writes into the buffers.
  void DropState() { has_state_ = false; }
  void SetState(const Position& position);
  // One step of the optimizer with the gradients that are in the model. REQUIRES has_state().
  void Apply(const Options& options, double gradient_norm, double loss);
  // A step whose gradients were not finite: it counts, the weights stay.
  void SkipStep(double loss);

  // Weights, first and second moments.
  std::array<std::span<float>, 3> buffers();
  checkpoint::Digest WeightsDigest();
  // Of everything, position included.
  checkpoint::Digest StateDigest();

 private:
  explicit Replica(std::unique_ptr<models::Gpt> model);

  std::unique_ptr<models::Gpt> model_;
  models::Buffer<float> moment1_, moment2_;
  bool has_state_ = false;
  Position position_;
};

}  // namespace muster::train_program
