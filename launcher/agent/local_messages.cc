#include "launcher/agent/local_messages.h"

#include "common/text.h"

namespace muster::agent {
namespace {

using local::FrameReader;
using local::FrameType;

Status Bad(const char* frame) {
  return InvalidArgument(Concat("a ", frame, " frame whose fields do not fit"));
}

void Cut(std::string* text) {
  if (text->size() > kLocalTextBytesMax) text->resize(kLocalTextBytesMax);
}

Result<LocalMessage> ReadRegister(FrameReader reader) {
  std::uint32_t flags = 0;
  LocalRegister message;
  if (!reader.Read(&flags) || !reader.Read(&message.pid)) return Bad("register");
  message.can_reform = (flags & local::kCanReform) != 0;
  return LocalMessage(message);
}

Result<LocalMessage> ReadProgress(FrameReader reader) {
  LocalProgress message;
  if (!reader.Read(&message.phase) || !reader.Read(&message.step)) return Bad("progress");
  if (message.phase > static_cast<std::uint8_t>(local::Phase::kCheckpoint) || message.step < -1) {
    return InvalidArgument(
        Concat("a progress frame with phase ", message.phase, " and step ", message.step));
  }
  return LocalMessage(message);
}

Result<LocalMessage> ReadQuiesced(FrameReader reader) {
  LocalQuiesced message;
  if (!reader.Read(&message.fence.attempt) || !reader.Read(&message.fence.round) ||
      !reader.Read(&message.step)) {
    return Bad("quiesced");
  }
  return LocalMessage(message);
}

Result<LocalMessage> ReadBroken(FrameReader reader) {
  LocalBroken message;
  if (!reader.Read(&message.fence.attempt) || !reader.Read(&message.fence.round) ||
      !reader.Read(&message.reason)) {
    return Bad("broken");
  }
  Cut(&message.reason);
  return LocalMessage(std::move(message));
}

bool ReadTimeout(FrameReader* reader, Duration* timeout) {
  std::uint64_t milliseconds = 0;
  if (!reader->Read(&milliseconds)) return false;
  *timeout = std::chrono::milliseconds(std::min(milliseconds, kLocalTimeoutMsMax));
  return true;
}

Result<LocalMessage> ReadKey(FrameType type, FrameReader reader) {
  LocalKey message;
  std::uint8_t scope = 0;
  bool fits = reader.Read(&message.id) && reader.Read(&scope);
  if (type == FrameType::kKeyWait) fits = fits && ReadTimeout(&reader, &message.timeout);
  if (type == FrameType::kKeyAdd) fits = fits && reader.Read(&message.delta);
  fits = fits && reader.Read(&message.key);
  if (type == FrameType::kKeySet) fits = fits && reader.Read(&message.value);
  if (!fits) return Bad("key");
  if (scope > static_cast<std::uint8_t>(local::KeyScope::kRun)) {
    return InvalidArgument(Concat("a key frame with scope ", scope));
  }
  if (message.key.empty() || message.key.size() > kLocalKeyBytesMax) {
    return InvalidArgument(Concat("a key of ", message.key.size(), " bytes; 1 to ",
                                  kLocalKeyBytesMax, " are allowed"));
  }
  if (message.value.size() > kLocalValueBytesMax) {
    return InvalidArgument(Concat("a value of ", message.value.size(), " bytes; at most ",
                                  kLocalValueBytesMax, " are allowed, put more into a file"));
  }
  message.of_run = scope == static_cast<std::uint8_t>(local::KeyScope::kRun);
  if (type == FrameType::kKeySet) message.operation = protocol::KeyOperation::kSet;
  if (type == FrameType::kKeyGet) message.operation = protocol::KeyOperation::kGet;
  if (type == FrameType::kKeyWait) message.operation = protocol::KeyOperation::kWait;
  if (type == FrameType::kKeyAdd) message.operation = protocol::KeyOperation::kAdd;
  return LocalMessage(std::move(message));
}

Result<LocalMessage> ReadBarrier(FrameReader reader) {
  LocalBarrier message;
  if (!reader.Read(&message.id) || !ReadTimeout(&reader, &message.timeout) ||
      !reader.Read(&message.name)) {
    return Bad("barrier");
  }
  if (message.name.size() > kLocalKeyBytesMax) {
    return InvalidArgument(Concat("a barrier's name of ", message.name.size(), " bytes; at most ",
                                  kLocalKeyBytesMax, " are allowed"));
  }
  return LocalMessage(std::move(message));
}

Result<LocalMessage> ReadRequest(FrameReader reader) {
  LocalRequest message;
  if (!reader.Read(&message.id) || !reader.Read(&message.kind) || !reader.Read(&message.reason)) {
    return Bad("request");
  }
  if (message.kind > static_cast<std::uint8_t>(local::RequestKind::kDone)) {
    return InvalidArgument(Concat("a request frame of kind ", message.kind));
  }
  Cut(&message.reason);
  return LocalMessage(std::move(message));
}

}  // namespace

Result<LocalMessage> ParseLocalMessage(FrameType type, std::string_view payload) {
  const FrameReader reader(payload);
  switch (type) {
    case FrameType::kRegister:
      return ReadRegister(reader);
    case FrameType::kProgress:
      return ReadProgress(reader);
    case FrameType::kQuiesced:
      return ReadQuiesced(reader);
    case FrameType::kBroken:
      return ReadBroken(reader);
    case FrameType::kKeySet:
    case FrameType::kKeyGet:
    case FrameType::kKeyWait:
    case FrameType::kKeyAdd:
      return ReadKey(type, reader);
    case FrameType::kBarrier:
      return ReadBarrier(reader);
    case FrameType::kRequest:
      return ReadRequest(reader);
    case FrameType::kRound:
    case FrameType::kRoundEnding:
    case FrameType::kAnswer:
    case FrameType::kStopAt:
      return InvalidArgument(Concat("a frame of type ", static_cast<std::uint16_t>(type),
                                    ", which only an agent may send"));
  }
  return LocalMessage(LocalUnknown{});
}

Result<std::optional<LocalMessage>> FrameStream::Next() {
  if (failed_) return InvalidArgument("the stream is broken");
  const std::string_view rest = std::string_view(bytes_).substr(at_);
  if (rest.size() < local::kHeaderBytes) return std::optional<LocalMessage>();
  const local::FrameHeader header = local::ReadHeader(rest);
  if (header.version != local::kVersion || header.length > local::kFrameBytesMax) {
    failed_ = true;
    return InvalidArgument(Concat("a frame of version ", header.version, " and ", header.length,
                                  " bytes; version ", local::kVersion, " and at most ",
                                  local::kFrameBytesMax, " bytes are understood"));
  }
  if (rest.size() < local::kHeaderBytes + header.length) return std::optional<LocalMessage>();
  Result<LocalMessage> message =
      ParseLocalMessage(header.type, rest.substr(local::kHeaderBytes, header.length));
  at_ += local::kHeaderBytes + header.length;
  // Bytes that were read are dropped in large pieces, so that many small frames stay cheap.
  if (at_ == bytes_.size() || at_ > (1U << 16U)) {
    bytes_.erase(0, at_);
    at_ = 0;
  }
  if (!message.ok()) {
    failed_ = true;
    return message.status();
  }
  return std::optional<LocalMessage>(std::move(message).value());
}

}  // namespace muster::agent
