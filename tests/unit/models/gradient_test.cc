// Every tensor's gradient against central finite differences, in double, with the code that trains
// in float; then float against double.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "tests/unit/models/model_fixtures.h"

namespace muster::models {
namespace {

double Loss(BasicGpt<double>& model, const Batch& batch) {
  auto loss = model.Forward(batch);
  EXPECT_TRUE(loss.ok()) << loss.status().ToString();
  return *loss;
}

std::vector<double> Gradients(BasicGpt<double>& model, const Batch& batch) {
  Loss(model, batch);
  EXPECT_TRUE(model.Backward({}, {}).ok());
  return {model.gradients().begin(), model.gradients().end()};
}

constexpr double kStep = 1e-4;

// The error of the difference is of order kStep^2; a wrong factor or a forgotten term is of the
// order of the gradient itself.
void ExpectClose(double gradient, double difference, const Tensor& tensor, std::size_t element) {
  EXPECT_NEAR(gradient, difference, 2e-7 + 2e-6 * std::abs(difference))
      << tensor.name << " element " << element;
}

TEST(Gradient, EveryElementOfASmallModel) {
  const GptConfig config{.layers = 2, .heads = 2, .width = 6, .context = 5, .vocabulary = 7};
  auto model = MakeGpt<double>(config, 1);
  const OwnedBatch batch = MakeBatch(3, 5, 7, 2);
  const std::vector<double> gradients = Gradients(*model, batch.view());
  for (const Tensor& tensor : model->tensors()) {
    double largest = 0;
    for (std::size_t i = 0; i < tensor.count; ++i) {
      double& parameter = model->parameters()[tensor.offset + i];
      const double kept = parameter;
      parameter = kept + kStep;
      const double above = Loss(*model, batch.view());
      parameter = kept - kStep;
      const double below = Loss(*model, batch.view());
      parameter = kept;
      ExpectClose(gradients[tensor.offset + i], (above - below) / (2 * kStep), tensor, i);
      largest = std::max(largest, std::abs(gradients[tensor.offset + i]));
    }
    // The check above says nothing about a tensor that the loss does not depend on.
    EXPECT_GT(largest, 1e-4) << tensor.name;
  }
}

// Sizes that are no multiple of the lanes, and sequences of more than one block of queries.
TEST(Gradient, EveryTensorAlongRandomDirections) {
  const GptConfig config{.layers = 2, .heads = 3, .width = 33, .context = 150, .vocabulary = 21};
  auto model = MakeGpt<double>(config, 3);
  const OwnedBatch batch = MakeBatch(2, 141, 21, 4);
  const std::vector<double> gradients = Gradients(*model, batch.view());
  for (const Tensor& tensor : model->tensors()) {
    for (std::uint64_t direction = 0; direction < 3; ++direction) {
      const auto values = model->parameters().subspan(tensor.offset, tensor.count);
      const std::vector<double> kept(values.begin(), values.end());
      const double scale = kStep / std::sqrt(static_cast<double>(tensor.count));
      double expected = 0;
      std::vector<double> way(tensor.count);
      for (std::size_t i = 0; i < tensor.count; ++i) {
        way[i] = RandomNormal(100 + direction, tensor.offset + i);
        expected += way[i] * gradients[tensor.offset + i];
        values[i] = kept[i] + scale * way[i];
      }
      const double above = Loss(*model, batch.view());
      for (std::size_t i = 0; i < tensor.count; ++i) values[i] = kept[i] - scale * way[i];
      const double below = Loss(*model, batch.view());
      std::copy(kept.begin(), kept.end(), values.begin());
      const double root = std::sqrt(static_cast<double>(tensor.count));
      ExpectClose(expected / root, (above - below) / (2 * scale) / root, tensor, direction);
    }
  }
}

TEST(Gradient, FloatAgreesWithDouble) {
  const GptConfig config{.layers = 2, .heads = 3, .width = 48, .context = 80, .vocabulary = 256};
  auto wide = MakeGpt<double>(config, 5);
  auto model = MakeGpt<float>(config, 5);
  const OwnedBatch batch = MakeBatch(2, 80, 256, 6);
  const std::vector<double> expected = Gradients(*wide, batch.view());
  auto loss = model->Forward(batch.view());
  ASSERT_TRUE(loss.ok());
  EXPECT_NEAR(*loss, Loss(*wide, batch.view()), 1e-5);
  ASSERT_TRUE(model->Backward({}, {}).ok());
  for (const Tensor& tensor : model->tensors()) {
    double error = 0, norm = 0;
    for (std::size_t i = tensor.offset; i < tensor.offset + tensor.count; ++i) {
      const double difference = static_cast<double>(model->gradients()[i]) - expected[i];
      error += difference * difference;
      norm += expected[i] * expected[i];
    }
    EXPECT_LT(std::sqrt(error), 1e-5 * std::sqrt(norm)) << tensor.name;
  }
}

TEST(Gradient, ScaleAndAccumulation) {
  const GptConfig config{.layers = 1, .heads = 2, .width = 20, .context = 9, .vocabulary = 30};
  auto model = MakeGpt<double>(config, 7);
  const OwnedBatch whole = MakeBatch(5, 9, 30, 8);
  const std::vector<double> expected = Gradients(*model, whole.view());
  // The same batch in slices of 2, 0 and 3 sequences, each weighed by its share.
  std::size_t first = 0;
  for (std::size_t sequences : {std::size_t{2}, std::size_t{0}, std::size_t{3}}) {
    const Batch slice{std::span(whole.tokens).subspan(first * 10, sequences * 10), sequences, 9};
    Loss(*model, slice);
    const double share = static_cast<double>(sequences) / 5.0;
    ASSERT_TRUE(
        model->Backward({.scale = share, .accumulate = first > 0 || sequences == 0}, {}).ok());
    first += sequences;
  }
  for (std::size_t i = 0; i < expected.size(); ++i) {
    ASSERT_NEAR(model->gradients()[i], expected[i], 1e-12) << "element " << i;
  }
}

TEST(Gradient, AnEmptyBatchGivesZeroGradients) {
  const GptConfig config{.layers = 1, .heads = 2, .width = 20, .context = 9, .vocabulary = 30};
  auto model = MakeGpt<double>(config, 7);
  Gradients(*model, MakeBatch(2, 9, 30, 8).view());
  EXPECT_EQ(Loss(*model, {{}, 0, 9}), 0.0);
  std::size_t reported = 0;
  ASSERT_TRUE(model->Backward({}, [&](std::size_t, std::size_t count) { reported += count; }).ok());
  EXPECT_EQ(reported, model->gradients().size());
  for (double gradient : model->gradients()) ASSERT_EQ(gradient, 0.0);
}

}  // namespace
}  // namespace muster::models
