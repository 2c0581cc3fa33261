#include "trainer_runtime/models/gpt_config.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace muster::models {
namespace {

TEST(GptConfig, LayoutHasNoGapsAndEveryNameOnce) {
  const GptLayout layout = MakeGptLayout({3, 2, 10, 7, 5});
  std::size_t next = 0;
  std::set<std::string> names;
  for (const Tensor& tensor : layout.table.tensors()) {
    EXPECT_EQ(tensor.offset, next) << tensor.name;
    std::size_t count = 1;
    for (std::size_t size : tensor.shape) count *= size;
    EXPECT_EQ(tensor.count, count);
    next += count;
    EXPECT_TRUE(names.insert(tensor.name).second) << tensor.name;
  }
  EXPECT_EQ(next, layout.table.count());
  EXPECT_EQ(names.size(), 2u + 3u * 12u + 2u);
  EXPECT_EQ(layout.token_embedding, 0u);
}

TEST(GptConfig, Gpt2HasItsKnownNumberOfParameters) {
  EXPECT_EQ(MakeGptLayout(*FindGptPreset("gpt2")).table.count(), 124439808u);
  EXPECT_EQ(MakeGptLayout(*FindGptPreset("gpt2-medium")).table.count(), 354823168u);
  EXPECT_EQ(MakeGptLayout(*FindGptPreset("gpt2-xl")).table.count(), 1557611200u);
}

TEST(GptConfig, PresetsAreValidAndNamedWhenMissing) {
  for (const GptPreset& preset : GptPresets()) {
    EXPECT_TRUE(Validate(preset.config).ok()) << preset.name;
    EXPECT_EQ(*FindGptPreset(preset.name), preset.config);
    // "10.8 M parameters": the description must not lie.
    const double millions = static_cast<double>(MakeGptLayout(preset.config).table.count()) / 1e6;
    EXPECT_NEAR(std::stod(std::string(preset.description)), millions, 0.05 + 0.001 * millions)
        << preset.name;
  }
  const Status status = FindGptPreset("huge").status();
  EXPECT_EQ(status.code(), StatusCode::kNotFound);
  EXPECT_NE(status.message().find("tiny, small"), std::string::npos) << status.message();
}

TEST(GptConfig, RefusesImpossibleSizes) {
  const GptConfig good{2, 2, 8, 8, 256};
  EXPECT_TRUE(Validate(good).ok());
  for (std::size_t GptConfig::*field : {&GptConfig::layers, &GptConfig::heads, &GptConfig::width,
                                        &GptConfig::context, &GptConfig::vocabulary}) {
    GptConfig bad = good;
    bad.*field = 0;
    EXPECT_EQ(Validate(bad).code(), StatusCode::kInvalidArgument);
    bad.*field = static_cast<std::size_t>(-1);
    EXPECT_EQ(Validate(bad).code(), StatusCode::kInvalidArgument);
  }
  GptConfig bad = good;
  bad.heads = 3;
  EXPECT_NE(Validate(bad).message().find("3 heads"), std::string::npos);
}

}  // namespace
}  // namespace muster::models
