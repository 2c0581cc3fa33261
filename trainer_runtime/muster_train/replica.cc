#include "trainer_runtime/muster_train/replica.h"

#include <algorithm>
#include <utility>

#include "common/check.h"
#include "trainer_runtime/muster_train/adamw.h"

namespace muster::train_program {
namespace {

std::span<const std::byte> Bytes(std::span<const float> values) { return std::as_bytes(values); }

}  // namespace

Replica::Replica(std::unique_ptr<models::Gpt> model)
    : model_(std::move(model)),
      moment1_(model_->parameters().size()),
      moment2_(model_->parameters().size()) {}

Result<Replica> Replica::Create(const std::string& preset) {
  MUSTER_ASSIGN_OR_RETURN(const models::GptConfig config, models::FindGptPreset(preset));
  MUSTER_ASSIGN_OR_RETURN(std::unique_ptr<models::Gpt> model, models::Gpt::Create(config));
  return Replica(std::move(model));
}

void Replica::Initialize(std::uint64_t seed) {
  model_->Initialize(seed);
  std::ranges::fill(moment1_.span(), 0.0F);
  std::ranges::fill(moment2_.span(), 0.0F);
  SetState({});
}

void Replica::SetState(const Position& position) {
  position_ = position;
  has_state_ = true;
}

void Replica::Apply(const Options& options, double gradient_norm, double loss) {
  MUSTER_CHECK(has_state_, "a step begins from a state");
  AdamWStep step;
  step.number = position_.step + 1;
  const double warmup = std::max<double>(1, static_cast<double>(options.warmup_steps));
  step.learning_rate =
      options.learning_rate * std::min(1.0, static_cast<double>(step.number) / warmup);
  step.beta1 = options.beta1;
  step.beta2 = options.beta2;
  step.epsilon = options.epsilon;
  if (options.clip_norm > 0 && gradient_norm > options.clip_norm) {
    step.gradient_scale = options.clip_norm / gradient_norm;
  }
  for (const models::Tensor& tensor : model_->tensors()) {
    // Biases and norms are not drawn to zero.
    step.weight_decay = tensor.shape.size() > 1 ? options.weight_decay : 0;
    const auto part = [&](std::span<float> all) {
      return all.subspan(tensor.offset, tensor.count);
    };
    ApplyAdamW(step, part(model_->parameters()), part(model_->gradients()), part(moment1_.span()),
               part(moment2_.span()));
  }
  SkipStep(loss);
}

void Replica::SkipStep(double loss) {
  ++position_.step;
  position_.last_loss = loss;
}

std::array<std::span<float>, 3> Replica::buffers() {
  return {model_->parameters(), moment1_.span(), moment2_.span()};
}

checkpoint::Digest Replica::WeightsDigest() {
  return checkpoint::DigestOf(Bytes(model_->parameters()));
}

checkpoint::Digest Replica::StateDigest() {
  checkpoint::DigestStream stream;
  for (const std::span<float> buffer : buffers()) stream.Update(Bytes(buffer));
  stream.Update(std::as_bytes(std::span(&position_.step, 1)));
  stream.Update(std::as_bytes(std::span(&position_.last_loss, 1)));
  return stream.Value();
}

}  // namespace muster::train_program
