#include "trainer_runtime/train/training_state.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "tests/unit/train/fixtures.h"

namespace muster::training {
namespace {

// What a socket would carry.
std::vector<std::byte> Send(const TrainingProgress& progress, const TrainingArrays& arrays) {
  const auto header = EncodeStateHeader(DescribeState(progress, arrays));
  std::vector<std::byte> wire(header.begin(), header.end());
  for (const auto& part : arrays.bytes()) wire.insert(wire.end(), part.begin(), part.end());
  return wire;
}

Result<TrainingProgress> Receive(std::span<const std::byte> wire, const checkpoint::Digest& model,
                                 const TrainingArrays& arrays) {
  MUSTER_ASSIGN_OR_RETURN(const StateHeader header,
                          DecodeStateHeader(wire.first(kStateHeaderBytes)));
  MUSTER_RETURN_IF_ERROR(CheckStateFits(header, model, arrays));
  wire = wire.subspan(kStateHeaderBytes);
  for (const auto& part : arrays.bytes()) {
    std::memcpy(part.data(), wire.data(), part.size());
    wire = wire.subspan(part.size());
  }
  EXPECT_TRUE(wire.empty());
  MUSTER_RETURN_IF_ERROR(VerifyState(header, arrays));
  return header.progress;
}

TEST(TrainingState, ANewcomerGetsAllOfIt) {
  const models::TensorTable table = MakeTable();
  OwnedState peer(0, table.count(), table.count(), 1), mine(0, table.count(), table.count(), 2);
  const TrainingProgress progress = MakeProgress(table);
  const auto got = Receive(Send(progress, peer.arrays), progress.model, mine.arrays);
  ASSERT_TRUE(got.ok()) << got.status().ToString();
  EXPECT_EQ(*got, progress);
  EXPECT_EQ(mine.values, peer.values);
}

TEST(TrainingState, AFlippedBitAnywhereIsSeen) {
  const models::TensorTable table = MakeTable();
  OwnedState peer(0, table.count(), table.count(), 1), mine(0, table.count(), table.count(), 2);
  const TrainingProgress progress = MakeProgress(table);
  const std::vector<std::byte> good = Send(progress, peer.arrays);
  for (std::size_t place = 0; place < good.size(); ++place) {
    std::vector<std::byte> wire = good;
    wire[place] ^= std::byte{4};
    EXPECT_FALSE(Receive(wire, progress.model, mine.arrays).ok()) << place;
  }
}

TEST(TrainingState, OnlyIntoAPlaceThatFits) {
  const models::TensorTable table = MakeTable();
  const std::size_t count = table.count();
  OwnedState peer(0, count, count, 1);
  const TrainingProgress progress = MakeProgress(table);
  const StateHeader header = DescribeState(progress, peer.arrays);
  OwnedState part(10, 20, count, 2), other(0, count, count + 1, 2);
  EXPECT_TRUE(CheckStateFits(header, progress.model, peer.arrays).ok());
  EXPECT_EQ(CheckStateFits(header, progress.model, part.arrays).code(),
            StatusCode::kFailedPrecondition);
  EXPECT_EQ(CheckStateFits(header, progress.model, other.arrays).code(),
            StatusCode::kFailedPrecondition);
  EXPECT_EQ(CheckStateFits(header, progress.corpus, peer.arrays).code(),
            StatusCode::kFailedPrecondition);
}

TEST(TrainingState, SenselessHeadersAreRefused) {
  const models::TensorTable table = MakeTable();
  OwnedState peer(0, table.count(), table.count(), 1);
  const StateHeader good = DescribeState(MakeProgress(table), peer.arrays);
  auto code = [](const StateHeader& header) {
    return DecodeStateHeader(EncodeStateHeader(header)).status().code();
  };
  EXPECT_EQ(code(good), StatusCode::kOk);
  EXPECT_EQ(*DecodeStateHeader(EncodeStateHeader(good)), good);
  StateHeader bad = good;
  bad.first = ~std::uint64_t{0};
  EXPECT_EQ(code(bad), StatusCode::kDataLoss);
  bad = good;
  bad.count = good.total + 1;
  EXPECT_EQ(code(bad), StatusCode::kDataLoss);
  bad = good;
  bad.total = bad.count = ~std::uint64_t{0};
  EXPECT_EQ(code(bad), StatusCode::kDataLoss);
  bad = good;
  bad.progress.schedule.peak = -1;
  EXPECT_EQ(code(bad), StatusCode::kDataLoss);
  bad = good;
  bad.progress.optimizer.beta1 = 2;
  EXPECT_EQ(code(bad), StatusCode::kDataLoss);
  EXPECT_EQ(DecodeStateHeader({}).status().code(), StatusCode::kDataLoss);
}

TEST(TrainingState, FingerprintsTellModelsApart) {
  models::TensorTable a, b, c;
  a.Add("w", {2, 3});
  b.Add("w", {3, 2});
  c.Add("v", {2, 3});
  EXPECT_EQ(ModelFingerprint(a.tensors()), ModelFingerprint(a.tensors()));
  EXPECT_NE(ModelFingerprint(a.tensors()), ModelFingerprint(b.tensors()));
  EXPECT_NE(ModelFingerprint(a.tensors()), ModelFingerprint(c.tensors()));
}

}  // namespace
}  // namespace muster::training
