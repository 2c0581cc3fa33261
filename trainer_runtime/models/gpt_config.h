#pragma once

// The sizes of a GPT and the layout of its parameters. Pure values; anybody may use them.

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "common/status.h"
#include "trainer_runtime/models/tensor_table.h"

namespace muster::models {

struct GptConfig {
  std::size_t layers = 0;
  std::size_t heads = 0;
  std::size_t width = 0;         // of the residual stream; a multiple of heads
  std::size_t context = 0;       // the longest sequence, in tokens
  std::size_t vocabulary = 256;  // bytes

  std::size_t head_width() const { return width / heads; }
  // The feed-forward layer's inner width.
  std::size_t inner_width() const { return 4 * width; }

  friend bool operator==(const GptConfig&, const GptConfig&) = default;
};

// InvalidArgument naming the field: zero sizes, heads that do not divide the width, or sizes above
// the limits in gpt_config.cc.
Status Validate(const GptConfig& config);

struct GptPreset {
  std::string_view name;
  std::string_view description;
  GptConfig config;
};
// "tiny", "small", "medium", "large" on bytes; "gpt2", "gpt2-medium", "gpt2-large", "gpt2-xl" with
// the sizes of Radford et al., "Language Models are Unsupervised Multitask Learners", 2019.
std::span<const GptPreset> GptPresets();
// NotFound names the presets there are.
Result<GptConfig> FindGptPreset(std::string_view name);

// Where a layer's tensors begin in the flat buffer.
struct GptLayerOffsets {
  std::size_t norm1_weight, norm1_bias;            // [width]
  std::size_t qkv_weight, qkv_bias;                // [3 width, width], [3 width]: q, k, v
  std::size_t projection_weight, projection_bias;  // [width, width], [width]
  std::size_t norm2_weight, norm2_bias;            // [width]
  std::size_t up_weight, up_bias;                  // [4 width, width], [4 width]
  std::size_t down_weight, down_bias;              // [width, 4 width], [width]
};

struct GptLayout {
  TensorTable table;
  std::size_t token_embedding = 0;     // [vocabulary, width]; the output matrix too
  std::size_t position_embedding = 0;  // [context, width]
  std::vector<GptLayerOffsets> layers;
  std::size_t final_norm_weight = 0, final_norm_bias = 0;  // [width]
};

// REQUIRES: Validate(config) is OK.
GptLayout MakeGptLayout(const GptConfig& config);

// Floating-point operations of one training step per token, forward and backward: 6 per parameter
// that is multiplied, plus the causal attention's 6 * layers * width * length (half of the square).
// After Chowdhery et al., "PaLM", 2022, appendix B; there without the causal half.
double GptTrainingFlopsPerToken(const GptConfig& config, std::size_t length);

}  // namespace muster::models
