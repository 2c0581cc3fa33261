#include "launcher/agent/local_messages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/random.h"

namespace muster::agent {
namespace {

using local::FrameType;
using local::FrameWriter;

std::string Frame(FrameWriter writer) { return writer.Finish(); }

std::vector<LocalMessage> ReadAll(FrameStream* stream, Status* status) {
  std::vector<LocalMessage> messages;
  while (true) {
    Result<std::optional<LocalMessage>> next = stream->Next();
    if (!next.ok()) {
      *status = next.status();
      return messages;
    }
    if (!*next) return messages;
    messages.push_back(std::move(**next));
  }
}

std::string Refusal(const std::string& frame) {
  FrameStream stream;
  stream.Append(frame);
  Status status;
  ReadAll(&stream, &status);
  return status.message();
}

TEST(LocalMessages, FramesComeThroughHoweverTheyAreCut) {
  std::string bytes;
  bytes += Frame(FrameWriter(FrameType::kRegister).Add(std::uint32_t{1}).Add(std::int32_t{42}));
  bytes += Frame(FrameWriter(FrameType::kProgress).Add(std::uint8_t{1}).Add(std::int64_t{7}));
  bytes += Frame(FrameWriter(FrameType::kKeySet)
                     .Add(std::uint64_t{9})
                     .Add(std::uint8_t{1})
                     .Add("key")
                     .Add("value"));
  bytes += Frame(
      FrameWriter(FrameType::kBarrier).Add(std::uint64_t{10}).Add(std::uint64_t{2000}).Add("b"));
  for (const std::size_t piece : {std::size_t{1}, std::size_t{3}, std::size_t{7}, bytes.size()}) {
    FrameStream stream;
    Status status;
    std::vector<LocalMessage> messages;
    for (std::size_t at = 0; at < bytes.size(); at += piece) {
      stream.Append(std::string_view(bytes).substr(at, piece));
      for (LocalMessage& message : ReadAll(&stream, &status)) messages.push_back(message);
    }
    ASSERT_TRUE(status.ok()) << status.message();
    ASSERT_EQ(messages.size(), 4U);
    EXPECT_TRUE(std::get<LocalRegister>(messages[0]).can_reform);
    EXPECT_EQ(std::get<LocalRegister>(messages[0]).pid, 42);
    EXPECT_EQ(std::get<LocalProgress>(messages[1]).step, 7);
    const auto& key = std::get<LocalKey>(messages[2]);
    EXPECT_EQ(key.operation, protocol::KeyOperation::kSet);
    EXPECT_TRUE(key.of_run);
    EXPECT_EQ(key.key, "key");
    EXPECT_EQ(key.value, "value");
    EXPECT_EQ(std::get<LocalBarrier>(messages[3]).timeout, std::chrono::seconds(2));
    EXPECT_EQ(stream.buffered(), 0U);
  }
}

TEST(LocalMessages, UnknownTypesAndFurtherFieldsAreIgnored) {
  FrameStream stream;
  stream.Append(Frame(FrameWriter(static_cast<FrameType>(77)).Add("later")));
  stream.Append(Frame(FrameWriter(FrameType::kProgress)
                          .Add(std::uint8_t{0})
                          .Add(std::int64_t{1})
                          .Add("a field of a later version")));
  Status status;
  const auto messages = ReadAll(&stream, &status);
  EXPECT_TRUE(status.ok());
  ASSERT_EQ(messages.size(), 2U);
  EXPECT_TRUE(std::holds_alternative<LocalUnknown>(messages[0]));
}

TEST(LocalMessages, HostileFramesAreRefused) {
  EXPECT_THAT(Refusal(std::string(8, '\xff')), testing::HasSubstr("bytes"));
  std::string version = Frame(FrameWriter(FrameType::kProgress));
  version[6] = 9;
  EXPECT_THAT(Refusal(version), testing::HasSubstr("version 9"));
  EXPECT_THAT(Refusal(Frame(FrameWriter(FrameType::kRegister))), testing::HasSubstr("register"));
  EXPECT_THAT(
      Refusal(Frame(FrameWriter(FrameType::kProgress).Add(std::uint8_t{9}).Add(std::int64_t{0}))),
      testing::HasSubstr("phase 9"));
  // A string that says it is longer than its frame.
  EXPECT_THAT(Refusal(Frame(FrameWriter(FrameType::kKeyGet)
                                .Add(std::uint64_t{1})
                                .Add(std::uint8_t{0})
                                .Add(std::uint32_t{4000000000U}))),
              testing::HasSubstr("key frame"));
  const auto key = [](const std::string& name, std::uint8_t scope) {
    return Frame(FrameWriter(FrameType::kKeyGet).Add(std::uint64_t{1}).Add(scope).Add(name));
  };
  EXPECT_EQ(Refusal(key("x", 0)), "");
  EXPECT_THAT(Refusal(key("", 0)), testing::HasSubstr("0 bytes"));
  EXPECT_THAT(Refusal(key(std::string(1025, 'k'), 0)), testing::HasSubstr("1025"));
  EXPECT_THAT(Refusal(key("x", 2)), testing::HasSubstr("scope"));
  EXPECT_THAT(Refusal(Frame(FrameWriter(FrameType::kRound))), testing::HasSubstr("only an agent"));
}

TEST(LocalMessages, ABrokenStreamStaysBroken) {
  FrameStream stream;
  stream.Append(std::string(8, '\xff'));
  EXPECT_FALSE(stream.Next().ok());
  stream.Append(Frame(FrameWriter(FrameType::kProgress).Add(std::uint8_t{0}).Add(std::int64_t{1})));
  EXPECT_FALSE(stream.Next().ok());
}

TEST(LocalMessages, RandomBytesNeverCrashOrGrow) {
  Random random(20261130);
  for (int round = 0; round < 20000; ++round) {
    FrameStream stream;
    std::string bytes;
    // Half of them with a header that fits, so that fields are reached.
    if (random.Chance(0.5)) {
      FrameWriter writer(static_cast<FrameType>(random.Below(110)));
      for (std::uint64_t i = random.Below(40); i > 0; --i) {
        writer.Add(static_cast<std::uint8_t>(random()));
      }
      bytes = writer.Finish();
    }
    for (std::uint64_t i = random.Below(64); i > 0; --i) bytes += static_cast<char>(random());
    while (!bytes.empty()) {
      const std::size_t piece = 1 + random.Below(bytes.size());
      stream.Append(bytes.substr(0, piece));
      bytes.erase(0, piece);
      Status status;
      ReadAll(&stream, &status);
      if (!status.ok()) break;
      EXPECT_LE(stream.buffered(), local::kHeaderBytes + local::kFrameBytesMax);
    }
  }
}

}  // namespace
}  // namespace muster::agent
