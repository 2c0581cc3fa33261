#pragma once

// A byte-level GPT on the CPU: token and position embedding; per layer a pre-norm causal
// attention and a pre-norm feed-forward with GELU, each added to the residual stream; a final norm;
// the token embedding again as output matrix; cross-entropy. The shape is GPT-2's, so its
// checkpoints' tensors fit one to one. Without dropout: the loss is a function of weights and
// batch.
//
// See BasicModel for the contract. Backward reports gradients as each weight is done: the final
// norm, then for each layer from the last: down, up, norm2, projection, qkv, norm1; the position
// embedding; the token embedding, which the output matrix shares, last.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "trainer_runtime/models/attention.h"
#include "trainer_runtime/models/buffer.h"
#include "trainer_runtime/models/gpt_config.h"
#include "trainer_runtime/models/kernels.h"
#include "trainer_runtime/models/model.h"

namespace muster::models {

template <typename T>
class BasicGpt final : public BasicModel<T> {
 public:
  // InvalidArgument: see Validate. Parameters are zero until Initialize or a copy into them.
  static Result<std::unique_ptr<BasicGpt>> Create(const GptConfig& config,
                                                  const Kernels<T>& kernels = BestKernels<T>());

  const GptConfig& config() const { return config_; }
  const GptLayout& layout() const { return layout_; }

  std::span<T> parameters() override { return parameters_.span(); }
  std::span<T> gradients() override { return gradients_.span(); }
  std::span<const Tensor> tensors() const override { return layout_.table.tensors(); }

  // GPT-2's: weights normal with deviation 0.02, those that end in the residual stream divided by
  // sqrt(2 layers); biases 0, norm weights 1.
  void Initialize(std::uint64_t seed) override;
  Result<double> Forward(const Batch& batch) override;
  Status Backward(const BackwardOptions& options, const GradientHook& hook) override;

  // Allocates and touches everything that batches up to this size need, before the first step.
  void Reserve(std::size_t sequences, std::size_t length);
  // The logits of the last Forward, [sequences * length, vocabulary]; Backward overwrites them.
  std::span<const T> logits() const { return {logits_.data(), rows_ * config_.vocabulary}; }

 private:
  // What backward needs of one layer, [rows, ...].
  struct Activations {
    Buffer<T> input, normal1, qkv, attended, middle, normal2, inner, activated;
    Buffer<T> mean1, rstd1, mean2, rstd2, log_sum_exp;
  };
  class Reporter;

  BasicGpt(const GptConfig& config, const Kernels<T>& kernels);
  Status CheckBatch(const Batch& batch) const;
  void Embed();
  void ForwardLayer(std::size_t index, T* output);
  void BackwardFeedForward(std::size_t index, T beta, Reporter& reporter);
  void BackwardAttention(std::size_t index, T beta, Reporter& reporter);
  void BackwardEmbeddings(Reporter& reporter);
  // y[rows, outputs] = x[rows, inputs] * weight^T.
  void Linear(std::size_t weight, std::size_t outputs, std::size_t inputs, const T* x, T* y);
  // dweight = beta * dweight + dy^T x; dbias likewise unless there is none.
  void LinearGradient(std::size_t weight, std::size_t outputs, std::size_t inputs, const T* x,
                      const T* dy, T beta);
  void BiasGradient(std::size_t bias, std::size_t width, const T* dy, T beta);
  void NormBackward(std::size_t weight, std::size_t bias, const T* x, const T* mean, const T* rstd,
                    const T* dy, T* dx, T beta);

  const T* Parameter(std::size_t offset) const { return parameters_.data() + offset; }
  T* Gradient(std::size_t offset) { return gradients_.data() + offset; }
  AttentionShape Shape() const {
    return {sequences_, length_, config_.heads, config_.head_width()};
  }

  const GptConfig config_;
  const Kernels<T>& kernels_;
  const GptLayout layout_;
  Buffer<T> parameters_, gradients_;

  std::vector<Activations> layers_;
  Buffer<T> final_input_, final_normal_, final_mean_, final_rstd_, logits_, logits_log_sum_exp_;
  Buffer<T> dstream_, dwidth_, dinner_, dqkv_;  // gradients of activations
  Buffer<std::int32_t> inputs_, targets_;       // [rows]
  CausalAttention<T> attention_;
  std::size_t reserved_rows_ = 0, reserved_length_ = 0;

  // The last Forward's.
  std::size_t sequences_ = 0, length_ = 0, rows_ = 0;
  bool forward_done_ = false;
};

extern template class BasicGpt<float>;
extern template class BasicGpt<double>;

using Gpt = BasicGpt<float>;

}  // namespace muster::models
