#include "trainer_runtime/muster_train/replica.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "common/check.h"
#include "trainer_runtime/train/gradient_norm.h"
#include "trainer_runtime/train/learning_rate.h"

namespace muster::train_program {
namespace {

constexpr double kUnknownLoss = std::numeric_limits<double>::quiet_NaN();
// Where the rate ends, as a part of its peak: usual for language models.
constexpr double kFloor = 0.1;

training::AdamWConfig OptimizerConfig(const Options& options) {
  return {options.beta1, options.beta2, options.epsilon, options.weight_decay};
}

training::LearningRateSchedule Schedule(const Options& options) {
  training::LearningRateSchedule schedule;
  schedule.peak = options.learning_rate;
  schedule.minimum = options.learning_rate * kFloor;
  schedule.total_steps = options.steps;
  schedule.warmup_steps = std::min(options.warmup_steps, options.steps);
  return schedule;
}

}  // namespace

Result<Replica> Replica::Create(const Options& options, const models::GptConfig& config,
                                const checkpoint::Digest& corpus) {
  MUSTER_ASSIGN_OR_RETURN(std::unique_ptr<models::Gpt> model, models::Gpt::Create(config));
  MUSTER_RETURN_IF_ERROR(training::Validate(Schedule(options)));
  MUSTER_ASSIGN_OR_RETURN(training::AdamW optimizer,
                          training::AdamW::Create(OptimizerConfig(options), model->tensors(), 0,
                                                  model->parameters().size()));
  Replica replica(options, std::move(model), std::move(optimizer));
  replica.start_.corpus = corpus;
  return replica;
}

Replica::Replica(const Options& options, std::unique_ptr<models::Gpt> model,
                 training::AdamW optimizer)
    : clip_norm_(options.clip_norm),
      model_(std::move(model)),
      optimizer_(std::move(optimizer)),
      last_loss_(kUnknownLoss) {
  start_.cursor.seed = options.seed;
  start_.global_batch = options.batch;
  start_.schedule = Schedule(options);
  start_.optimizer = OptimizerConfig(options);
  start_.model = training::ModelFingerprint(model_->tensors());
}

training::TrainingArrays Replica::arrays() {
  training::TrainingArrays arrays;
  arrays.total = model_->parameters().size();
  arrays.parameters = model_->parameters();
  arrays.first_moment = optimizer_.first_moment();
  arrays.second_moment = optimizer_.second_moment();
  return arrays;
}

void Replica::Initialize() {
  model_->Initialize(start_.cursor.seed);
  std::ranges::fill(optimizer_.first_moment(), 0.0F);
  std::ranges::fill(optimizer_.second_moment(), 0.0F);
  SetState(start_, kUnknownLoss);
}

void Replica::SetState(const training::TrainingProgress& progress, double last_loss) {
  progress_ = start_;
  progress_.step = progress.step;
  progress_.updates = progress.updates;
  progress_.cursor = progress.cursor;
  optimizer_.set_updates(progress.updates);
  last_loss_ = last_loss;
  has_state_ = true;
}

void Replica::Apply(double gradient_norm, double loss) {
  MUSTER_CHECK(has_state_, "a step begins from a state");
  optimizer_.Step(training::LearningRateAt(progress_.schedule, progress_.updates),
                  training::ClipFactor(gradient_norm, clip_norm_), model_->parameters(),
                  model_->gradients());
  progress_.updates = optimizer_.updates();
  Advance(loss);
}

void Replica::Skip(double loss) { Advance(loss); }

void Replica::Advance(double loss) {
  ++progress_.step;
  progress_.cursor.samples_consumed += progress_.global_batch;
  last_loss_ = loss;
}

checkpoint::Digest Replica::WeightsDigest() const {
  return checkpoint::DigestOf(std::as_bytes(model_->parameters()));
}

}  // namespace muster::train_program
