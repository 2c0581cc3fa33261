#include "checkpoint/digest.h"

#include <xxhash.h>

#include <algorithm>

#include "common/check.h"
#include "common/hex.h"
#include "common/text.h"

namespace muster::checkpoint {

namespace {

Digest FromHash(XXH128_hash_t hash) {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, hash);
  Digest digest;
  std::copy(std::begin(canonical.digest), std::end(canonical.digest), digest.bytes.begin());
  return digest;
}

}  // namespace

std::string Digest::ToHex() const {
  return HexEncode({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

Result<Digest> Digest::FromHex(std::string_view text) {
  Digest digest;
  if (text.size() != 2 * digest.bytes.size()) {
    return InvalidArgument(Concat("a digest has 32 hexadecimal digits, not ", text.size()));
  }
  MUSTER_ASSIGN_OR_RETURN(const std::string raw, HexDecode(text));
  std::copy(raw.begin(), raw.end(), digest.bytes.begin());
  return digest;
}

struct DigestStream::State {
  XXH3_state_t* hash = XXH3_createState();
  ~State() { XXH3_freeState(hash); }
};

DigestStream::DigestStream() : state_(std::make_unique<State>()) {
  MUSTER_CHECK(state_->hash != nullptr, "no memory for a digest");
  XXH3_128bits_reset(state_->hash);
}
DigestStream::~DigestStream() = default;
DigestStream::DigestStream(DigestStream&&) noexcept = default;
DigestStream& DigestStream::operator=(DigestStream&&) noexcept = default;

void DigestStream::Update(std::span<const std::byte> bytes) {
  if (!bytes.empty()) XXH3_128bits_update(state_->hash, bytes.data(), bytes.size());
}

Digest DigestStream::Value() const { return FromHash(XXH3_128bits_digest(state_->hash)); }

Digest DigestOf(std::span<const std::byte> bytes) {
  return FromHash(XXH3_128bits(bytes.data(), bytes.size()));
}

}  // namespace muster::checkpoint
