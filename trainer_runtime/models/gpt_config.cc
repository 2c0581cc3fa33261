#include "trainer_runtime/models/gpt_config.h"

#include <array>
#include <string>

#include "common/check.h"
#include "common/text.h"

namespace muster::models {

namespace {

// Beyond any model that a host's memory holds, and small enough that no product of sizes overflows.
constexpr std::size_t kLayersMax = 1024;
constexpr std::size_t kWidthMax = 65536;
constexpr std::size_t kContextMax = 65536;
constexpr std::size_t kVocabularyMax = 1 << 20;

constexpr std::array kPresets = {
    GptPreset{"tiny", "0.12 M parameters, for tests", {2, 4, 64, 64, 256}},
    GptPreset{"small", "0.85 M parameters", {4, 4, 128, 128, 256}},
    GptPreset{"medium", "10.8 M parameters", {6, 6, 384, 256, 256}},
    GptPreset{"large", "25.6 M parameters", {8, 8, 512, 512, 256}},
    GptPreset{"gpt2", "124.4 M parameters", {12, 12, 768, 1024, 50257}},
    GptPreset{"gpt2-medium", "354.8 M parameters", {24, 16, 1024, 1024, 50257}},
    GptPreset{"gpt2-large", "774.0 M parameters", {36, 20, 1280, 1024, 50257}},
    GptPreset{"gpt2-xl", "1557.6 M parameters", {48, 25, 1600, 1024, 50257}},
};

Status CheckSize(std::string_view field, std::size_t value, std::size_t limit) {
  if (value >= 1 && value <= limit) return OkStatus();
  return InvalidArgument(Concat("GPT ", field, " is ", value, "; it must be from 1 to ", limit));
}

}  // namespace

Status Validate(const GptConfig& config) {
  MUSTER_RETURN_IF_ERROR(CheckSize("layers", config.layers, kLayersMax));
  MUSTER_RETURN_IF_ERROR(CheckSize("width", config.width, kWidthMax));
  MUSTER_RETURN_IF_ERROR(CheckSize("heads", config.heads, config.width));
  MUSTER_RETURN_IF_ERROR(CheckSize("context", config.context, kContextMax));
  MUSTER_RETURN_IF_ERROR(CheckSize("vocabulary", config.vocabulary, kVocabularyMax));
  if (config.width % config.heads != 0) {
    return InvalidArgument(Concat("GPT width ", config.width, " is no multiple of its ",
                                  config.heads, " heads; change one of them"));
  }
  return OkStatus();
}

std::span<const GptPreset> GptPresets() { return kPresets; }

Result<GptConfig> FindGptPreset(std::string_view name) {
  std::string known;
  for (const GptPreset& preset : kPresets) {
    if (preset.name == name) return preset.config;
    known += (known.empty() ? "" : ", ") + std::string(preset.name);
  }
  return NotFound(Concat("there is no GPT preset ", Quote(name), "; there are ", known));
}

GptLayout MakeGptLayout(const GptConfig& config) {
  MUSTER_CHECK(Validate(config).ok(), "a layout needs a valid configuration");
  GptLayout layout;
  TensorTable& table = layout.table;
  const std::size_t width = config.width;
  const std::size_t inner = config.inner_width();
  layout.token_embedding = table.Add("token_embedding", {config.vocabulary, width});
  layout.position_embedding = table.Add("position_embedding", {config.context, width});
  for (std::size_t i = 0; i < config.layers; ++i) {
    const std::string prefix = "layer" + std::to_string(i) + ".";
    GptLayerOffsets layer{};
    layer.norm1_weight = table.Add(prefix + "norm1.weight", {width});
    layer.norm1_bias = table.Add(prefix + "norm1.bias", {width});
    layer.qkv_weight = table.Add(prefix + "attention.qkv.weight", {3 * width, width});
    layer.qkv_bias = table.Add(prefix + "attention.qkv.bias", {3 * width});
    layer.projection_weight = table.Add(prefix + "attention.projection.weight", {width, width});
    layer.projection_bias = table.Add(prefix + "attention.projection.bias", {width});
    layer.norm2_weight = table.Add(prefix + "norm2.weight", {width});
    layer.norm2_bias = table.Add(prefix + "norm2.bias", {width});
    layer.up_weight = table.Add(prefix + "mlp.up.weight", {inner, width});
    layer.up_bias = table.Add(prefix + "mlp.up.bias", {inner});
    layer.down_weight = table.Add(prefix + "mlp.down.weight", {width, inner});
    layer.down_bias = table.Add(prefix + "mlp.down.bias", {width});
    layout.layers.push_back(layer);
  }
  layout.final_norm_weight = table.Add("final_norm.weight", {width});
  layout.final_norm_bias = table.Add("final_norm.bias", {width});
  return layout;
}

double GptTrainingFlopsPerToken(const GptConfig& config, std::size_t length) {
  const double width = static_cast<double>(config.width);
  const double layers = static_cast<double>(config.layers);
  const double multiplied =
      layers * 12 * width * width + static_cast<double>(config.vocabulary) * width;
  return 6 * multiplied + 6 * layers * width * static_cast<double>(length);
}

}  // namespace muster::models
