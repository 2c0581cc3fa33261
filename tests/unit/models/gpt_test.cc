// The model as a whole: against a plain reading of the formulas, causality, bits, the hook, and
// that it learns.

#include "trainer_runtime/models/gpt.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/models/model_fixtures.h"
#include "trainer_runtime/models/matrix.h"

namespace muster::models {
namespace {

using Row = std::vector<double>;

// The forward pass once more, as one reads it in the paper: a position at a time, no shared code.
class PlainGpt {
 public:
  explicit PlainGpt(BasicGpt<double>& model) : model_(model), config_(model.config()) {}

  double Loss(const OwnedBatch& batch) {
    double sum = 0;
    for (std::size_t s = 0; s < batch.sequences; ++s) {
      const std::int32_t* tokens = batch.tokens.data() + s * (batch.length + 1);
      const std::vector<Row> logits = Logits(tokens, batch.length);
      for (std::size_t t = 0; t < batch.length; ++t) {
        double total = 0;
        for (double logit : logits[t]) total += std::exp(logit);
        sum += std::log(total) - logits[t][static_cast<std::size_t>(tokens[t + 1])];
      }
    }
    return sum / static_cast<double>(batch.sequences * batch.length);
  }

 private:
  const double* Find(const std::string& name) const {
    for (const Tensor& tensor : model_.tensors()) {
      if (tensor.name == name) return model_.parameters().data() + tensor.offset;
    }
    ADD_FAILURE() << "no tensor " << name;
    return nullptr;
  }

  Row Linear(const std::string& name, const Row& x, std::size_t outputs) const {
    const double* weight = Find(name + ".weight");
    const double* bias = Find(name + ".bias");
    Row y(outputs);
    for (std::size_t o = 0; o < outputs; ++o) {
      y[o] = bias[o];
      for (std::size_t i = 0; i < x.size(); ++i) y[o] += weight[o * x.size() + i] * x[i];
    }
    return y;
  }

  Row Norm(const std::string& name, const Row& x) const {
    double mean = 0, variance = 0;
    for (double v : x) mean += v / static_cast<double>(x.size());
    for (double v : x) variance += (v - mean) * (v - mean) / static_cast<double>(x.size());
    Row y(x.size());
    for (std::size_t i = 0; i < x.size(); ++i) {
      y[i] = (x[i] - mean) / std::sqrt(variance + 1e-5) * Find(name + ".weight")[i] +
             Find(name + ".bias")[i];
    }
    return y;
  }

  Row Attend(const std::vector<Row>& qkv, std::size_t t) const {
    const std::size_t depth = config_.head_width(), width = config_.width;
    Row out(width, 0.0);
    for (std::size_t h = 0; h < config_.heads; ++h) {
      Row weight(t + 1);
      double total = 0;
      for (std::size_t u = 0; u <= t; ++u) {
        double dot = 0;
        for (std::size_t d = h * depth; d < (h + 1) * depth; ++d) {
          dot += qkv[t][d] * qkv[u][width + d];
        }
        total += weight[u] = std::exp(dot / std::sqrt(static_cast<double>(depth)));
      }
      for (std::size_t u = 0; u <= t; ++u) {
        for (std::size_t d = h * depth; d < (h + 1) * depth; ++d) {
          out[d] += weight[u] / total * qkv[u][2 * width + d];
        }
      }
    }
    return out;
  }

  std::vector<Row> Logits(const std::int32_t* tokens, std::size_t length) const {
    const std::size_t width = config_.width;
    const double* embedding = Find("token_embedding");
    std::vector<Row> x(length, Row(width));
    for (std::size_t t = 0; t < length; ++t) {
      for (std::size_t i = 0; i < width; ++i) {
        x[t][i] = embedding[static_cast<std::size_t>(tokens[t]) * width + i] +
                  Find("position_embedding")[t * width + i];
      }
    }
    for (std::size_t l = 0; l < config_.layers; ++l) {
      const std::string name = "layer" + std::to_string(l) + ".";
      std::vector<Row> qkv;
      for (const Row& row : x) {
        qkv.push_back(Linear(name + "attention.qkv", Norm(name + "norm1", row), 3 * width));
      }
      for (std::size_t t = 0; t < length; ++t) {
        const Row y = Linear(name + "attention.projection", Attend(qkv, t), width);
        for (std::size_t i = 0; i < width; ++i) x[t][i] += y[i];
        Row inner = Linear(name + "mlp.up", Norm(name + "norm2", x[t]), 4 * width);
        for (double& v : inner) {
          v = 0.5 * v * (1 + std::tanh(std::sqrt(2 / M_PI) * (v + 0.044715 * v * v * v)));
        }
        const Row z = Linear(name + "mlp.down", inner, width);
        for (std::size_t i = 0; i < width; ++i) x[t][i] += z[i];
      }
    }
    std::vector<Row> logits;
    for (const Row& row : x) {
      const Row y = Norm("final_norm", row);
      logits.emplace_back(config_.vocabulary, 0.0);
      for (std::size_t v = 0; v < config_.vocabulary; ++v) {
        for (std::size_t i = 0; i < width; ++i) logits.back()[v] += embedding[v * width + i] * y[i];
      }
    }
    return logits;
  }

  BasicGpt<double>& model_;
  const GptConfig& config_;
};

TEST(Gpt, ForwardIsThePlainFormula) {
  const GptConfig config{.layers = 2, .heads = 3, .width = 21, .context = 70, .vocabulary = 19};
  auto model = MakeGpt<double>(config, 11);
  for (std::size_t length : {std::size_t{1}, std::size_t{5}, std::size_t{70}}) {
    const OwnedBatch batch = MakeBatch(2, length, 19, length);
    EXPECT_NEAR(*model->Forward(batch.view()), PlainGpt(*model).Loss(batch), 1e-12);
  }
}

TEST(Gpt, APositionDoesNotSeeTheOnesAfterIt) {
  const GptConfig config{.layers = 2, .heads = 2, .width = 32, .context = 100, .vocabulary = 50};
  auto model = MakeGpt<float>(config, 12);
  OwnedBatch batch = MakeBatch(1, 100, 50, 13);
  ASSERT_TRUE(model->Forward(batch.view()).ok());
  const std::vector<float> before(model->logits().begin(), model->logits().end());
  constexpr std::size_t kChanged = 71;
  batch.tokens[kChanged] = (batch.tokens[kChanged] + 1) % 50;
  ASSERT_TRUE(model->Forward(batch.view()).ok());
  for (std::size_t t = 0; t < 100; ++t) {
    const bool same =
        std::memcmp(&before[t * 50], &model->logits()[t * 50], 50 * sizeof(float)) == 0;
    EXPECT_EQ(same, t < kChanged) << "position " << t;
  }
}

TEST(Gpt, AFreshModelKnowsNothing) {
  auto model = Gpt::Create(*FindGptPreset("tiny"));
  ASSERT_TRUE(model.ok());
  (*model)->Initialize(1);
  const OwnedBatch batch = MakeBatch(4, 64, 256, 14);
  EXPECT_NEAR(*(*model)->Forward(batch.view()), std::log(256.0), 0.05);
}

TEST(Gpt, InitializationFollowsTheSeedAndTheScales) {
  auto a = Gpt::Create(*FindGptPreset("small")), b = Gpt::Create(*FindGptPreset("small"));
  (*a)->Initialize(1);
  (*b)->Initialize(1);
  const std::size_t bytes = (*a)->parameters().size_bytes();
  EXPECT_EQ(std::memcmp((*a)->parameters().data(), (*b)->parameters().data(), bytes), 0);
  (*b)->Initialize(2);
  EXPECT_NE(std::memcmp((*a)->parameters().data(), (*b)->parameters().data(), bytes), 0);
  for (const Tensor& tensor : (*a)->tensors()) {
    double sum = 0, squares = 0;
    for (float value : (*a)->parameters().subspan(tensor.offset, tensor.count)) {
      sum += static_cast<double>(value);
      squares += static_cast<double>(value) * static_cast<double>(value);
    }
    const double count = static_cast<double>(tensor.count);
    const double deviation = std::sqrt(squares / count - sum / count * (sum / count));
    const bool small =
        tensor.name.ends_with("projection.weight") || tensor.name.ends_with("down.weight");
    double expected = small ? 0.02 / std::sqrt(8.0) : 0.02;
    if (tensor.shape.size() == 1) expected = 0;
    EXPECT_NEAR(deviation, expected, 0.03 * expected + 1e-9) << tensor.name;
    EXPECT_NEAR(sum / count, tensor.shape.size() == 1 && tensor.name.ends_with("weight") ? 1 : 0,
                0.001)
        << tensor.name;
  }
}

// Loss bits of a few steps of plain gradient descent.
std::vector<double> ShortTraining(const Kernels<float>& kernels, int threads) {
  SetMatrixThreads(threads);
  const GptConfig config{.layers = 2, .heads = 4, .width = 64, .context = 64, .vocabulary = 256};
  auto model = MakeGpt<float>(config, 15, kernels);
  std::vector<double> losses;
  for (std::uint64_t step = 0; step < 4; ++step) {
    const OwnedBatch batch = MakeBatch(3, 64, 256, step);
    losses.push_back(*model->Forward(batch.view()));
    EXPECT_TRUE(model->Backward({}, {}).ok());
    for (std::size_t i = 0; i < model->parameters().size(); ++i) {
      model->parameters()[i] -= 0.1f * model->gradients()[i];
    }
  }
  for (float value : model->parameters()) losses.push_back(static_cast<double>(value));
  SetMatrixThreads(1);
  return losses;
}

TEST(Gpt, SameSeedSameBits) {
  EXPECT_EQ(ShortTraining(BestKernels<float>(), 1), ShortTraining(BestKernels<float>(), 1));
  EXPECT_EQ(ShortTraining(BestKernels<float>(), 2), ShortTraining(BestKernels<float>(), 2));
}

TEST(Gpt, EveryKernelBuildGivesTheSameBits) {
  if (Avx2Kernels() == nullptr) GTEST_SKIP() << "this processor has one build only";
  EXPECT_EQ(ShortTraining(BaselineKernels<float>(), 1), ShortTraining(*Avx2Kernels(), 1));
}

TEST(Gpt, TheHookSeesEveryGradientOnceFromTheEndAndFinal) {
  const GptConfig config{.layers = 3, .heads = 2, .width = 24, .context = 10, .vocabulary = 40};
  auto model = MakeGpt<float>(config, 16);
  const OwnedBatch batch = MakeBatch(2, 10, 40, 17);
  ASSERT_TRUE(model->Forward(batch.view()).ok());
  std::vector<float> seen(model->gradients().size());
  std::size_t expected_end = seen.size();
  std::vector<std::size_t> firsts;
  ASSERT_TRUE(model
                  ->Backward({},
                             [&](std::size_t first, std::size_t count) {
                               EXPECT_EQ(first + count, expected_end);
                               EXPECT_GT(count, 0u);
                               expected_end = first;
                               firsts.push_back(first);
                               for (std::size_t i = first; i < first + count; ++i)
                                 seen[i] = model->gradients()[i];
                             })
                  .ok());
  EXPECT_EQ(expected_end, 0u);
  // What the hook saw is what is there at the end: nothing was touched after its report.
  EXPECT_EQ(std::memcmp(seen.data(), model->gradients().data(), seen.size() * sizeof(float)), 0);
  EXPECT_GE(firsts.size(), 3u + 3u * 6u);
  // The shared embedding comes alone and last.
  EXPECT_EQ(firsts[firsts.size() - 2], model->layout().position_embedding);
}

TEST(Gpt, LearnsOneBatchByHeart) {
  auto created = Gpt::Create(*FindGptPreset("tiny"));
  ASSERT_TRUE(created.ok());
  Gpt& model = **created;
  model.Initialize(18);
  const OwnedBatch batch = MakeBatch(2, 16, 256, 19);
  std::vector<double> losses;
  std::vector<float> momentum(model.parameters().size());
  for (int step = 0; step < 150; ++step) {
    losses.push_back(*model.Forward(batch.view()));
    ASSERT_TRUE(model.Backward({}, {}).ok());
    for (std::size_t i = 0; i < momentum.size(); ++i) {
      momentum[i] = 0.9f * momentum[i] + model.gradients()[i];
      model.parameters()[i] -= 0.05f * momentum[i];
    }
  }
  EXPECT_GT(losses.front(), 5.0);
  EXPECT_LT(losses.back(), 0.1);
}

TEST(Gpt, RefusesWhatDoesNotFit) {
  auto created = Gpt::Create({.layers = 1, .heads = 1, .width = 8, .context = 4, .vocabulary = 10});
  ASSERT_TRUE(created.ok());
  Gpt& model = **created;
  EXPECT_EQ(model.Backward({}, {}).code(), StatusCode::kFailedPrecondition);
  const OwnedBatch good = MakeBatch(2, 4, 10, 1);
  auto code = [&](const Batch& batch) { return model.Forward(batch).status().code(); };
  EXPECT_EQ(code({good.tokens, 2, 5}), StatusCode::kInvalidArgument);
  EXPECT_EQ(code({good.tokens, 2, 0}), StatusCode::kInvalidArgument);
  EXPECT_EQ(code({good.tokens, 3, 4}), StatusCode::kInvalidArgument);
  EXPECT_EQ(code({std::span(good.tokens).first(9), 1, 4}), StatusCode::kInvalidArgument);
  for (std::int32_t token : {-1, 10, std::numeric_limits<std::int32_t>::min()}) {
    OwnedBatch bad = good;
    bad.tokens[9] = token;
    const Status status = model.Forward(bad.view()).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_NE(status.message().find(std::to_string(token)), std::string::npos);
  }
  ASSERT_TRUE(model.Forward(good.view()).ok());
  EXPECT_TRUE(model.Backward({}, {}).ok());
  EXPECT_EQ(model.Backward({}, {}).code(), StatusCode::kFailedPrecondition);
}

TEST(Gpt, NotANumberReachesTheLoss) {
  auto model = MakeGpt<float>({2, 2, 32, 16, 256}, 20);
  const OwnedBatch batch = MakeBatch(2, 16, 256, 21);
  for (const Tensor& tensor : model->tensors()) {
    if (tensor.name == "token_embedding") continue;  // only the rows in use count
    const float kept = model->parameters()[tensor.offset];
    model->parameters()[tensor.offset] = std::numeric_limits<float>::quiet_NaN();
    EXPECT_TRUE(std::isnan(*model->Forward(batch.view()))) << tensor.name;
    model->parameters()[tensor.offset] = kept;
  }
}

}  // namespace
}  // namespace muster::models
