// The pieces together, as a training loop uses them, without any process group.

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/folder.h"
#include "tests/unit/train/fixtures.h"
#include "trainer_runtime/models/gpt.h"
#include "trainer_runtime/train/batch_builder.h"
#include "trainer_runtime/train/gradient_norm.h"
#include "trainer_runtime/train/state_checkpoint.h"

namespace muster::training {
namespace {

constexpr std::uint64_t kBatch = 6;

// All ranks of a world in one process: their gradients are added up in rank order.
class Training {
 public:
  explicit Training(const Corpus& corpus)
      : builder_(corpus, kSeed),
        model_(models::Gpt::Create({2, 2, 32, 16, 256}).value()),
        optimizer_(AdamW::Create({}, model_->tensors(), 0, model_->parameters().size()).value()) {
    model_->Initialize(kSeed);
    progress_.cursor.seed = kSeed;
    progress_.global_batch = kBatch;
    progress_.schedule = {3e-3, 3e-4, 5, 150};
    progress_.optimizer = optimizer_.config();
    progress_.model = ModelFingerprint(model_->tensors());
    progress_.corpus = corpus.fingerprint();
  }

  double Step(std::uint64_t world) {
    double loss = 0;
    for (std::uint64_t rank = 0; rank < world; ++rank) {
      const Slice slice = RankSlice(kBatch, rank, world);
      const double share = static_cast<double>(slice.count) / static_cast<double>(kBatch);
      loss += share * *model_->Forward(builder_.Build(progress_.cursor.samples_consumed, slice));
      EXPECT_TRUE(model_->Backward({.scale = share, .accumulate = rank > 0}, {}).ok());
    }
    const double norm = std::sqrt(SumOfSquares(model_->gradients()));
    optimizer_.Step(LearningRateAt(progress_.schedule, progress_.step), ClipFactor(norm, 1.0),
                    model_->parameters(), model_->gradients());
    ++progress_.step;
    progress_.updates = optimizer_.updates();
    progress_.cursor.samples_consumed += kBatch;
    return loss;
  }

  TrainingArrays arrays() {
    return {0, model_->parameters().size(), model_->parameters(), optimizer_.first_moment(),
            optimizer_.second_moment()};
  }
  std::string Save(const std::string& folder) {
    return SaveState(checkpoint::SystemFiles(), folder, "run1", 1, progress_, model_->tensors(),
                     arrays())
        .value();
  }
  void Load(const std::string& folder) {
    const auto found = checkpoint::NewestVerified(folder, "run1");
    ASSERT_TRUE(found.ok());
    const auto progress =
        LoadState(found->entry.path, found->manifest, model_->tensors(), arrays());
    ASSERT_TRUE(progress.ok()) << progress.status().ToString();
    progress_ = *progress;
    optimizer_.set_updates(progress_.updates);
  }

 private:
  static constexpr std::uint64_t kSeed = 3;
  BatchBuilder builder_;
  std::unique_ptr<models::Gpt> model_;
  AdamW optimizer_;
  TrainingProgress progress_;
};

class TrainingTest : public ::testing::Test {
 protected:
  TrainingTest()
      : corpus_(Corpus::Open({WriteBytes(folder_, "corpus", 17 * 20 + 3, 1)}, 16).value()) {}

  TemporaryFolder folder_;
  Corpus corpus_;
};

TEST_F(TrainingTest, Learns) {
  Training training(corpus_);
  const double first = training.Step(1);
  double last = 0;
  for (int step = 0; step < 149; ++step) last = training.Step(1);
  EXPECT_NEAR(first, std::log(256.0), 0.1);
  EXPECT_LT(last, 3.5) << "byte t+1 is byte t plus 7: easy to learn";
}

TEST_F(TrainingTest, AResumedRunHasTheSameBits) {
  Training whole(corpus_);
  std::vector<double> losses;
  for (int step = 0; step < 12; ++step) losses.push_back(whole.Step(2));

  Training before(corpus_);
  for (int step = 0; step < 5; ++step) EXPECT_EQ(before.Step(2), losses[static_cast<size_t>(step)]);
  before.Save(folder_.path());
  Training after(corpus_);
  after.Step(1);  // whatever it did before the checkpoint was read
  after.Load(folder_.path());
  for (std::size_t step = 5; step < 12; ++step) EXPECT_EQ(after.Step(2), losses[step]) << step;
  for (std::size_t array = 0; array < 3; ++array) {
    const auto a = whole.arrays().bytes()[array], b = after.arrays().bytes()[array];
    EXPECT_EQ(std::memcmp(a.data(), b.data(), a.size()), 0);
  }
}

// The gradient of a batch is the same sum however it is cut; only rounding differs.
TEST_F(TrainingTest, TheWorldSizeChangesRoundingOnly) {
  Training one(corpus_), changing(corpus_);
  for (std::uint64_t world : {4u, 4u, 3u, 3u, 4u, 8u, 1u}) {
    EXPECT_NEAR(one.Step(1), changing.Step(world), 1e-3);
  }
}

}  // namespace
}  // namespace muster::training
