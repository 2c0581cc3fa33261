#include "trainer_runtime/models/gpt.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "common/check.h"
#include "common/text.h"
#include "trainer_runtime/models/counter_random.h"
#include "trainer_runtime/models/matrix.h"

namespace muster::models {

// Tells the hook, each time, how far down from the buffer's end the gradients are final.
template <typename T>
class BasicGpt<T>::Reporter {
 public:
  Reporter(const GradientHook& hook, std::size_t end) : hook_(hook), end_(end) {}

  void FinalFrom(std::size_t first) {
    MUSTER_CHECK(first < end_, "gradients become final from the end of the buffer to its start");
    const std::size_t count = end_ - first;
    end_ = first;
    if (hook_) hook_(first, count);
  }

 private:
  const GradientHook& hook_;
  std::size_t end_;
};

template <typename T>
Result<std::unique_ptr<BasicGpt<T>>> BasicGpt<T>::Create(const GptConfig& config,
                                                         const Kernels<T>& kernels) {
  MUSTER_RETURN_IF_ERROR(Validate(config));
  return std::unique_ptr<BasicGpt>(new BasicGpt(config, kernels));
}

template <typename T>
BasicGpt<T>::BasicGpt(const GptConfig& config, const Kernels<T>& kernels)
    : config_(config),
      kernels_(kernels),
      layout_(MakeGptLayout(config)),
      parameters_(layout_.table.count()),
      gradients_(layout_.table.count()),
      layers_(config.layers) {}

template <typename T>
void BasicGpt<T>::Initialize(std::uint64_t seed) {
  constexpr double kDeviation = 0.02;
  const double residual = kDeviation / std::sqrt(2.0 * static_cast<double>(config_.layers));
  std::uint64_t stream = 0;
  for (const Tensor& tensor : tensors()) {
    T* values = parameters_.data() + tensor.offset;
    const std::uint64_t tensor_seed = Random64(seed, stream++);
    if (tensor.shape.size() < 2) {
      const bool norm_weight = tensor.name.ends_with("weight");
      std::fill_n(values, tensor.count, norm_weight ? T(1) : T(0));
      continue;
    }
    const bool into_stream =
        tensor.name.ends_with("projection.weight") || tensor.name.ends_with("down.weight");
    const double deviation = into_stream ? residual : kDeviation;
    for (std::size_t i = 0; i < tensor.count; ++i) {
      values[i] = static_cast<T>(deviation * RandomNormal(tensor_seed, i));
    }
  }
}

template <typename T>
void BasicGpt<T>::Reserve(std::size_t sequences, std::size_t length) {
  const std::size_t rows = sequences * length;
  if (length > reserved_length_) attention_.Reserve(length);
  reserved_length_ = std::max(reserved_length_, length);
  if (rows <= reserved_rows_) return;
  reserved_rows_ = rows;
  const std::size_t stream = rows * config_.width;
  for (Activations& layer : layers_) {
    for (Buffer<T>* buffer :
         {&layer.input, &layer.normal1, &layer.attended, &layer.middle, &layer.normal2}) {
      buffer->Reserve(stream);
    }
    layer.qkv.Reserve(3 * stream);
    layer.inner.Reserve(rows * config_.inner_width());
    layer.activated.Reserve(rows * config_.inner_width());
    for (Buffer<T>* buffer : {&layer.mean1, &layer.rstd1, &layer.mean2, &layer.rstd2}) {
      buffer->Reserve(rows);
    }
    layer.log_sum_exp.Reserve(rows * config_.heads);
  }
  for (Buffer<T>* buffer : {&final_input_, &final_normal_, &dstream_, &dwidth_}) {
    buffer->Reserve(stream);
  }
  for (Buffer<T>* buffer : {&final_mean_, &final_rstd_, &logits_log_sum_exp_}) {
    buffer->Reserve(rows);
  }
  dqkv_.Reserve(3 * stream);
  dinner_.Reserve(rows * config_.inner_width());
  logits_.Reserve(rows * config_.vocabulary);
  inputs_.Reserve(rows);
  targets_.Reserve(rows);
}

template <typename T>
Status BasicGpt<T>::CheckBatch(const Batch& batch) const {
  if (batch.length < 1 || batch.length > config_.context) {
    return InvalidArgument(
        Concat("a batch has length ", batch.length, "; this model takes 1 to ", config_.context));
  }
  const std::size_t window = batch.length + 1;
  if (batch.tokens.size() / window != batch.sequences || batch.tokens.size() % window != 0) {
    return InvalidArgument(Concat("a batch of ", batch.sequences, " windows of ", window,
                                  " tokens holds ", batch.tokens.size(), " tokens"));
  }
  for (std::size_t i = 0; i < batch.tokens.size(); ++i) {
    const std::int32_t token = batch.tokens[i];
    if (token < 0 || static_cast<std::size_t>(token) >= config_.vocabulary) {
      return InvalidArgument(Concat("token ", token, " at place ", i,
                                    " of the batch is outside the vocabulary of ",
                                    config_.vocabulary));
    }
  }
  return OkStatus();
}

template <typename T>
void BasicGpt<T>::Linear(std::size_t weight, std::size_t outputs, std::size_t inputs, const T* x,
                         T* y) {
  MatrixProduct(rows_, outputs, inputs, T(1), {x, inputs}, {Parameter(weight), inputs, true}, T(0),
                y, outputs);
}

template <typename T>
void BasicGpt<T>::Embed() {
  const std::size_t width = config_.width;
  T* stream = layers_.front().input.data();
  for (std::size_t row = 0; row < rows_; ++row) {
    const auto token = static_cast<std::size_t>(inputs_.data()[row]);
    T* out = stream + row * width;
    std::memcpy(out, Parameter(layout_.token_embedding + token * width), width * sizeof(T));
    kernels_.add(width, Parameter(layout_.position_embedding + row % length_ * width), out);
  }
}

template <typename T>
void BasicGpt<T>::ForwardLayer(std::size_t index, T* output) {
  const GptLayerOffsets& at = layout_.layers[index];
  Activations& layer = layers_[index];
  const std::size_t width = config_.width, inner = config_.inner_width();
  kernels_.layer_norm(rows_, width, layer.input.data(), Parameter(at.norm1_weight),
                      Parameter(at.norm1_bias), layer.normal1.data(), layer.mean1.data(),
                      layer.rstd1.data());
  Linear(at.qkv_weight, 3 * width, width, layer.normal1.data(), layer.qkv.data());
  kernels_.add_bias(rows_, 3 * width, Parameter(at.qkv_bias), layer.qkv.data());
  attention_.Forward(kernels_, Shape(), layer.qkv.data(), layer.attended.data(),
                     layer.log_sum_exp.data());
  Linear(at.projection_weight, width, width, layer.attended.data(), layer.middle.data());
  kernels_.add_bias_and_residual(rows_, width, Parameter(at.projection_bias), layer.input.data(),
                                 layer.middle.data());
  kernels_.layer_norm(rows_, width, layer.middle.data(), Parameter(at.norm2_weight),
                      Parameter(at.norm2_bias), layer.normal2.data(), layer.mean2.data(),
                      layer.rstd2.data());
  Linear(at.up_weight, inner, width, layer.normal2.data(), layer.inner.data());
  kernels_.add_bias_and_gelu(rows_, inner, Parameter(at.up_bias), layer.inner.data(),
                             layer.activated.data());
  Linear(at.down_weight, width, inner, layer.activated.data(), output);
  kernels_.add_bias_and_residual(rows_, width, Parameter(at.down_bias), layer.middle.data(),
                                 output);
}

template <typename T>
Result<double> BasicGpt<T>::Forward(const Batch& batch) {
  MUSTER_RETURN_IF_ERROR(CheckBatch(batch));
  Reserve(batch.sequences, batch.length);
  sequences_ = batch.sequences;
  length_ = batch.length;
  rows_ = sequences_ * length_;
  forward_done_ = true;
  if (rows_ == 0) return 0.0;
  for (std::size_t row = 0; row < rows_; ++row) {
    const std::size_t place = row / length_ * (length_ + 1) + row % length_;
    inputs_.data()[row] = batch.tokens[place];
    targets_.data()[row] = batch.tokens[place + 1];
  }
  Embed();
  for (std::size_t i = 0; i < config_.layers; ++i) {
    ForwardLayer(i, i + 1 < config_.layers ? layers_[i + 1].input.data() : final_input_.data());
  }
  kernels_.layer_norm(rows_, config_.width, final_input_.data(),
                      Parameter(layout_.final_norm_weight), Parameter(layout_.final_norm_bias),
                      final_normal_.data(), final_mean_.data(), final_rstd_.data());
  Linear(layout_.token_embedding, config_.vocabulary, config_.width, final_normal_.data(),
         logits_.data());
  return kernels_.cross_entropy(rows_, config_.vocabulary, logits_.data(), targets_.data(),
                                logits_log_sum_exp_.data()) /
         static_cast<double>(rows_);
}

template <typename T>
void BasicGpt<T>::LinearGradient(std::size_t weight, std::size_t outputs, std::size_t inputs,
                                 const T* x, const T* dy, T beta) {
  MatrixProduct(outputs, inputs, rows_, T(1), {dy, outputs, true}, {x, inputs}, beta,
                Gradient(weight), inputs);
}

template <typename T>
void BasicGpt<T>::BiasGradient(std::size_t bias, std::size_t width, const T* dy, T beta) {
  if (beta == T(0)) std::fill_n(Gradient(bias), width, T(0));
  kernels_.column_sum(rows_, width, dy, Gradient(bias));
}

template <typename T>
void BasicGpt<T>::NormBackward(std::size_t weight, std::size_t bias, const T* x, const T* mean,
                               const T* rstd, const T* dy, T* dx, T beta) {
  if (beta == T(0)) {
    std::fill_n(Gradient(weight), config_.width, T(0));
    std::fill_n(Gradient(bias), config_.width, T(0));
  }
  kernels_.layer_norm_backward(rows_, config_.width, x, Parameter(weight), mean, rstd, dy, dx,
                               Gradient(weight), Gradient(bias));
}

template <typename T>
void BasicGpt<T>::BackwardFeedForward(std::size_t index, T beta, Reporter& reporter) {
  const GptLayerOffsets& at = layout_.layers[index];
  const Activations& layer = layers_[index];
  const std::size_t width = config_.width, inner = config_.inner_width();
  T *dstream = dstream_.data(), *dinner = dinner_.data(), *dwidth = dwidth_.data();

  LinearGradient(at.down_weight, width, inner, layer.activated.data(), dstream, beta);
  BiasGradient(at.down_bias, width, dstream, beta);
  reporter.FinalFrom(at.down_weight);
  MatrixProduct(rows_, inner, width, T(1), {dstream, width}, {Parameter(at.down_weight), inner},
                T(0), dinner, inner);
  kernels_.gelu_backward(rows_ * inner, layer.inner.data(), dinner);
  LinearGradient(at.up_weight, inner, width, layer.normal2.data(), dinner, beta);
  BiasGradient(at.up_bias, inner, dinner, beta);
  reporter.FinalFrom(at.up_weight);
  MatrixProduct(rows_, width, inner, T(1), {dinner, inner}, {Parameter(at.up_weight), width}, T(0),
                dwidth, width);
  NormBackward(at.norm2_weight, at.norm2_bias, layer.middle.data(), layer.mean2.data(),
               layer.rstd2.data(), dwidth, dstream, beta);
  reporter.FinalFrom(at.norm2_weight);
}

template <typename T>
void BasicGpt<T>::BackwardAttention(std::size_t index, T beta, Reporter& reporter) {
  const GptLayerOffsets& at = layout_.layers[index];
  const Activations& layer = layers_[index];
  const std::size_t width = config_.width;
  T *dstream = dstream_.data(), *dwidth = dwidth_.data(), *dqkv = dqkv_.data();

  LinearGradient(at.projection_weight, width, width, layer.attended.data(), dstream, beta);
  BiasGradient(at.projection_bias, width, dstream, beta);
  reporter.FinalFrom(at.projection_weight);
  MatrixProduct(rows_, width, width, T(1), {dstream, width},
                {Parameter(at.projection_weight), width}, T(0), dwidth, width);
  attention_.Backward(kernels_, Shape(), layer.qkv.data(), layer.attended.data(),
                      layer.log_sum_exp.data(), dwidth, dqkv);
  LinearGradient(at.qkv_weight, 3 * width, width, layer.normal1.data(), dqkv, beta);
  BiasGradient(at.qkv_bias, 3 * width, dqkv, beta);
  reporter.FinalFrom(at.qkv_weight);
  MatrixProduct(rows_, width, 3 * width, T(1), {dqkv, 3 * width}, {Parameter(at.qkv_weight), width},
                T(0), dwidth, width);
  NormBackward(at.norm1_weight, at.norm1_bias, layer.input.data(), layer.mean1.data(),
               layer.rstd1.data(), dwidth, dstream, beta);
  reporter.FinalFrom(at.norm1_weight);
}

template <typename T>
void BasicGpt<T>::BackwardEmbeddings(Reporter& reporter) {
  const std::size_t width = config_.width;
  for (std::size_t row = 0; row < rows_; ++row) {
    kernels_.add(width, dstream_.data() + row * width,
                 Gradient(layout_.position_embedding + row % length_ * width));
  }
  reporter.FinalFrom(layout_.position_embedding);
  for (std::size_t row = 0; row < rows_; ++row) {
    const auto token = static_cast<std::size_t>(inputs_.data()[row]);
    kernels_.add(width, dstream_.data() + row * width,
                 Gradient(layout_.token_embedding + token * width));
  }
  reporter.FinalFrom(layout_.token_embedding);
}

template <typename T>
Status BasicGpt<T>::Backward(const BackwardOptions& options, const GradientHook& hook) {
  if (!forward_done_) {
    return FailedPrecondition("Backward needs a Forward before it; each Forward serves one");
  }
  forward_done_ = false;
  Reporter reporter(hook, gradients_.size());
  const T beta = options.accumulate ? T(1) : T(0);
  if (rows_ == 0) {
    if (!options.accumulate) std::fill_n(gradients_.data(), gradients_.size(), T(0));
    reporter.FinalFrom(0);
    return OkStatus();
  }
  const std::size_t width = config_.width, vocabulary = config_.vocabulary;
  if (!options.accumulate) {
    std::fill_n(Gradient(layout_.position_embedding), config_.context * width, T(0));
  }
  kernels_.cross_entropy_backward(rows_, vocabulary, logits_log_sum_exp_.data(), targets_.data(),
                                  static_cast<T>(options.scale / static_cast<double>(rows_)),
                                  logits_.data());
  LinearGradient(layout_.token_embedding, vocabulary, width, final_normal_.data(), logits_.data(),
                 beta);
  MatrixProduct(rows_, width, vocabulary, T(1), {logits_.data(), vocabulary},
                {Parameter(layout_.token_embedding), width}, T(0), dwidth_.data(), width);
  std::fill_n(dstream_.data(), rows_ * width, T(0));
  NormBackward(layout_.final_norm_weight, layout_.final_norm_bias, final_input_.data(),
               final_mean_.data(), final_rstd_.data(), dwidth_.data(), dstream_.data(), beta);
  reporter.FinalFrom(layout_.final_norm_weight);
  for (std::size_t i = config_.layers; i-- > 0;) {
    BackwardFeedForward(i, beta, reporter);
    BackwardAttention(i, beta, reporter);
  }
  BackwardEmbeddings(reporter);
  return OkStatus();
}

template class BasicGpt<float>;
template class BasicGpt<double>;

}  // namespace muster::models
