#pragma once

// Replica: what every rank holds a copy of: weights, the optimizer's moments, and how far they are.
//
// A replica is at a whole step or it has no state at all, never between: Apply and Skip alone move
// it on. Thread-compatible.

#include <cstdint>
#include <memory>
#include <span>

#include "checkpoint/digest.h"
#include "common/status.h"
#include "trainer_runtime/models/gpt.h"
#include "trainer_runtime/muster_train/options.h"
#include "trainer_runtime/train/adamw.h"
#include "trainer_runtime/train/training_state.h"

namespace muster::train_program {

class Replica {
 public:
  // For a corpus with that fingerprint. Memory is allocated, there is no state yet.
  static Result<Replica> Create(const Options& options, const models::GptConfig& config,
                                const checkpoint::Digest& corpus);

  models::Gpt& model() { return *model_; }
  const models::Gpt& model() const { return *model_; }
  std::span<const models::Tensor> tensors() const { return model_->tensors(); }
  training::TrainingArrays arrays();

  bool has_state() const { return has_state_; }
  const training::TrainingProgress& progress() const { return progress_; }
  std::uint64_t step() const { return progress_.step; }
  // Of the last step, if this process knows it; else NaN.
  double last_loss() const { return last_loss_; }

  // The state of a training that begins.
  void Initialize();
  // From here to SetState there is none: somebody writes into the arrays.
  void DropState() { has_state_ = false; }
  // The arrays hold the state of `progress`. What the options say (rate, batch, decay) holds for
  // the steps to come.
  void SetState(const training::TrainingProgress& progress, double last_loss);

  // One step with the gradients that are in the model, of that length. REQUIRES has_state().
  void Apply(double gradient_norm, double loss);
  // A step whose gradients were not finite: it counts, the weights stay.
  void Skip(double loss);

  checkpoint::Digest WeightsDigest() const;

 private:
  Replica(const Options& options, std::unique_ptr<models::Gpt> model, training::AdamW optimizer);
  void Advance(double loss);

  double clip_norm_;
  std::unique_ptr<models::Gpt> model_;
  training::AdamW optimizer_;
  training::TrainingProgress start_;  // the options' numbers, at step 0
  training::TrainingProgress progress_;
  bool has_state_ = false;
  double last_loss_;
};

}  // namespace muster::train_program
