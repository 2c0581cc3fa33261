#include "checkpoint/reader.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/unit/checkpoint/fixtures.h"

namespace muster::checkpoint {
namespace {

TensorDestination Want(std::vector<float>& values, std::uint64_t first) {
  return {"w", ElementType::kFloat32, {10, 7}, first, std::as_writable_bytes(std::span(values))};
}

class ReaderTest : public ::testing::Test {
 protected:
  void Write(std::uint64_t world) {
    auto path = WriteTestEntry(TestFiles(), folder_.path(), "run1", 42, world);
    ASSERT_TRUE(path.ok());
    entry_ = *path;
    manifest_ = *VerifyEntry(entry_);
  }

  TemporaryFolder folder_;
  std::string entry_;
  Manifest manifest_;
};

TEST_F(ReaderTest, AnyWorldReadsWhatAnyWorldWrote) {
  for (std::uint64_t wrote = 1; wrote <= 5; ++wrote) {
    std::filesystem::remove_all(entry_);
    Write(wrote);
    for (std::uint64_t reads = 1; reads <= 8; ++reads) {
      for (std::uint64_t rank = 0; rank < reads; ++rank) {
        const std::uint64_t first = 70 * rank / reads, last = 70 * (rank + 1) / reads;
        std::vector<float> values(last - first);
        const TensorDestination want = Want(values, first);
        for (ReadCheck check : {ReadCheck::kDigest, ReadCheck::kNone}) {
          values.assign(values.size(), -1);
          ASSERT_TRUE(ReadTensors(entry_, manifest_, std::span(&want, 1), check).ok());
          EXPECT_EQ(values, TestValues(42, first, last - first));
        }
      }
    }
  }
}

TEST_F(ReaderTest, SeveralTensorsInAnyOrder) {
  Write(3);
  std::vector<float> head(20), tail(30);
  float scalar = 0;
  const TensorDestination wants[] = {
      Want(tail, 40),
      {"b", ElementType::kFloat32, {}, 0, std::as_writable_bytes(std::span(&scalar, 1))},
      Want(head, 3)};
  ASSERT_TRUE(ReadTensors(entry_, manifest_, wants).ok());
  EXPECT_EQ(head, TestValues(42, 3, 20));
  EXPECT_EQ(tail, TestValues(42, 40, 30));
  EXPECT_EQ(scalar, 42.0f);
}

TEST_F(ReaderTest, RefusesWhatIsNotThere) {
  Write(2);
  std::vector<float> values(10);
  auto code = [&](TensorDestination want) {
    return ReadTensors(entry_, manifest_, std::span(&want, 1)).code();
  };
  TensorDestination want = Want(values, 0);
  EXPECT_EQ(code(want), StatusCode::kOk);
  want.name = "v";
  EXPECT_EQ(code(want), StatusCode::kNotFound);
  want = Want(values, 61);
  EXPECT_EQ(code(want), StatusCode::kInvalidArgument);
  want = Want(values, ~std::uint64_t{0} - 4);
  EXPECT_EQ(code(want), StatusCode::kInvalidArgument);
  want = Want(values, 0);
  want.shape = {7, 10};
  EXPECT_EQ(code(want), StatusCode::kInvalidArgument);
  want = Want(values, 0);
  want.type = ElementType::kInt32;
  EXPECT_EQ(code(want), StatusCode::kInvalidArgument);
  want = Want(values, 0);
  want.data = want.data.first(7);
  EXPECT_EQ(code(want), StatusCode::kInvalidArgument);
  std::vector<float> more(10);
  const TensorDestination both[] = {Want(values, 0), Want(more, 9)};
  EXPECT_EQ(ReadTensors(entry_, manifest_, both).code(), StatusCode::kInvalidArgument);
}

// Damage outside the wanted range counts too: the shard's digest is of the whole file.
TEST_F(ReaderTest, AFlippedBitAnywhereInAShardIsSeen) {
  Write(2);
  const std::string shard = entry_ + "/rank-1";
  const std::size_t size = ReadText(shard).size();
  std::vector<float> values(5);
  const TensorDestination want = Want(values, 50);
  for (std::size_t place = 0; place < size; ++place) {
    FlipByte(shard, place);
    EXPECT_EQ(ReadTensors(entry_, manifest_, std::span(&want, 1)).code(), StatusCode::kDataLoss);
    FlipByte(shard, place);
  }
  EXPECT_TRUE(ReadTensors(entry_, manifest_, std::span(&want, 1)).ok());
  std::filesystem::resize_file(shard, size - 1);
  for (ReadCheck check : {ReadCheck::kDigest, ReadCheck::kNone}) {
    EXPECT_EQ(ReadTensors(entry_, manifest_, std::span(&want, 1), check).code(),
              StatusCode::kDataLoss);
  }
}

}  // namespace
}  // namespace muster::checkpoint
