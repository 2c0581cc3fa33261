#include "trainer_runtime/train/corpus.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "tests/unit/train/fixtures.h"
#include "trainer_runtime/train/batch_builder.h"

namespace muster::training {
namespace {

TEST(Corpus, WindowsOfSeveralFilesInOrder) {
  TemporaryFolder folder;
  // 3 windows and a rest; nothing at all; less than a window; exactly 2.
  const std::vector<std::string> paths = {
      WriteBytes(folder, "a", 35, 1), WriteBytes(folder, "b", 0, 2), WriteBytes(folder, "c", 9, 3),
      WriteBytes(folder, "d", 20, 4)};
  const auto corpus = Corpus::Open(paths, 9);
  ASSERT_TRUE(corpus.ok()) << corpus.status().ToString();
  EXPECT_EQ(corpus->windows(), 5u);
  EXPECT_EQ(corpus->context(), 9u);
  const unsigned starts[] = {1, 1 + 70, 1 + 140, 4, 4 + 70};
  for (std::uint64_t i = 0; i < 5; ++i) {
    const auto window = corpus->Window(i);
    ASSERT_EQ(window.size(), 10u);
    for (unsigned t = 0; t < 10; ++t) {
      EXPECT_EQ(window[t], static_cast<std::uint8_t>(starts[i] + 7 * t)) << i << " " << t;
    }
  }
}

TEST(Corpus, SaysWhatIsWrong) {
  TemporaryFolder folder;
  const std::string small = WriteBytes(folder, "small", 9, 1);
  EXPECT_EQ(Corpus::Open({}, 9).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Corpus::Open({small}, 0).status().code(), StatusCode::kInvalidArgument);
  const Status missing = Corpus::Open({small, folder.path() + "/none"}, 4).status();
  EXPECT_EQ(missing.code(), StatusCode::kNotFound);
  EXPECT_NE(missing.message().find("/none"), std::string::npos);
  EXPECT_EQ(Corpus::Open({folder.path()}, 4).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Corpus::Open({"/dev/zero"}, 4).status().code(), StatusCode::kInvalidArgument);
  const Status short_one = Corpus::Open({small}, 9).status();
  EXPECT_EQ(short_one.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(short_one.message().find("9 bytes, not one window of 10"), std::string::npos);
}

TEST(Corpus, FingerprintKnowsAnotherCorpus) {
  TemporaryFolder folder;
  const std::string a = WriteBytes(folder, "a", 500'000, 1),
                    b = WriteBytes(folder, "b", 500'000, 2);
  const std::string longer = WriteBytes(folder, "c", 500'001, 1);
  std::set<std::string> seen;
  auto add = [&](const std::vector<std::string>& paths, std::size_t context) {
    return seen.insert(Corpus::Open(paths, context)->fingerprint().ToHex()).second;
  };
  EXPECT_TRUE(add({a, b}, 9));
  EXPECT_FALSE(add({a, b}, 9));
  EXPECT_TRUE(add({b, a}, 9));
  EXPECT_TRUE(add({a, b}, 10));
  EXPECT_TRUE(add({a}, 9));
  EXPECT_TRUE(add({longer}, 9));
}

TEST(Corpus, BatchesAreTheSamplersWindows) {
  TemporaryFolder folder;
  const auto corpus = Corpus::Open({WriteBytes(folder, "a", 1234, 1)}, 16);
  ASSERT_TRUE(corpus.ok());
  const Sampler sampler = *Sampler::Create(corpus->windows(), 5);
  BatchBuilder builder(*corpus, 5);
  for (const Slice& slice : {Slice{0, 4}, Slice{4, 3}, Slice{7, 0}, Slice{70, 20}}) {
    const models::Batch batch = builder.Build(100, slice);
    ASSERT_EQ(batch.sequences, slice.count);
    ASSERT_EQ(batch.length, 16u);
    ASSERT_EQ(batch.tokens.size(), slice.count * 17);
    for (std::uint64_t i = 0; i < slice.count; ++i) {
      const auto window = corpus->Window(sampler.SampleAt(100 + slice.first + i));
      EXPECT_TRUE(std::equal(window.begin(), window.end(),
                             batch.tokens.begin() + static_cast<long>(17 * i)));
    }
  }
}

}  // namespace
}  // namespace muster::training
