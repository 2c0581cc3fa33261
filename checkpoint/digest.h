#pragma once

// XXH3-128 digests: against damage by disks, networks and mistakes, at the speed of memory. No
// protection against somebody who wants to deceive.
//
// Thread-compatible. Anybody may use it.

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "common/status.h"

namespace muster::checkpoint {

// The canonical (big-endian) form, as `xxhsum -H2` prints it.
struct Digest {
  std::array<std::uint8_t, 16> bytes{};

  std::string ToHex() const;
  // InvalidArgument unless `text` is 32 hexadecimal digits.
  static Result<Digest> FromHex(std::string_view text);

  friend bool operator==(const Digest&, const Digest&) = default;
};

// The digest of bytes that come in pieces; where they are cut does not matter.
class DigestStream {
 public:
  DigestStream();
  ~DigestStream();
  DigestStream(DigestStream&&) noexcept;
  DigestStream& operator=(DigestStream&&) noexcept;

  void Update(std::span<const std::byte> bytes);
  // Of everything so far; more may follow.
  Digest Value() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

Digest DigestOf(std::span<const std::byte> bytes);

}  // namespace muster::checkpoint
