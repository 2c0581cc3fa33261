#pragma once

// The worker's frames of proto/local.h as values, read from a hostile stream of bytes: what does
// not fit is InvalidArgument naming the field, and ends that connection only. Pure; fuzzed.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "common/status.h"
#include "proto/local.h"
#include "rendezvousd/protocol/messages.h"

namespace muster::agent {

// As the daemon's limits (rendezvousd/core/limits.h), refused here before they travel.
inline constexpr std::size_t kLocalKeyBytesMax = 1024;
inline constexpr std::size_t kLocalValueBytesMax = 1U << 20U;
// A reason or text is cut, not refused.
inline constexpr std::size_t kLocalTextBytesMax = 4096;
// A day: nobody waits longer, and the sum with a clock cannot overflow.
inline constexpr std::uint64_t kLocalTimeoutMsMax = 86'400'000;

struct LocalRegister {
  bool can_reform = false;
  std::int32_t pid = 0;
};
struct LocalProgress {
  std::uint8_t phase = 0;
  std::int64_t step = -1;
};
struct LocalQuiesced {
  protocol::Fence fence;
  std::int64_t step = -1;
};
struct LocalBroken {
  protocol::Fence fence;
  std::string reason;
};
struct LocalKey {
  std::uint64_t id = 0;
  protocol::KeyOperation operation = protocol::KeyOperation::kGet;
  bool of_run = false;
  Duration timeout{};  // kWait
  std::int64_t delta = 0;
  std::string key;
  std::string value;
};
struct LocalBarrier {
  std::uint64_t id = 0;
  Duration timeout{};
  std::string name;
};
struct LocalRequest {
  std::uint64_t id = 0;
  std::uint8_t kind = 0;
  std::string reason;
};
struct LocalUnknown {};  // a type of a later version: ignored

using LocalMessage = std::variant<LocalRegister, LocalProgress, LocalQuiesced, LocalBroken,
                                  LocalKey, LocalBarrier, LocalRequest, LocalUnknown>;

Result<LocalMessage> ParseLocalMessage(local::FrameType type, std::string_view payload);

// Bytes in, frames out.
class FrameStream {
 public:
  void Append(std::string_view bytes) { bytes_ += bytes; }
  // The next whole frame; nothing if more bytes are needed; an error for a header above
  // kFrameBytesMax or of another version, and from then on.
  Result<std::optional<LocalMessage>> Next();
  std::size_t buffered() const { return bytes_.size() - at_; }

 private:
  std::string bytes_;
  std::size_t at_ = 0;
  bool failed_ = false;
};

}  // namespace muster::agent
