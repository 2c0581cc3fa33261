#pragma once

// Pieces that several conversions share. Private to conversion*.cc.

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "common/status.h"
#include "muster/v1/rendezvous.pb.h"
#include "rendezvousd/protocol/messages.h"

namespace muster::protocol::wire {

// DNS allows 253 bytes for a name; numeric addresses are shorter.
inline constexpr std::size_t kNameBytesMax = 255;
// The core cuts at 4 KiB (core/limits.h); a list of nodes in a sentence may be longer on the wire.
inline constexpr std::size_t kTextBytesMax = std::size_t{64} << 10U;
// An agent of one node; Slurm counts tasks of a node in 16 bits.
inline constexpr int kWorkersMax = 65535;
// libslurm's own bound of a host list.
inline constexpr int kNodesMax = 65536;

// The text as a proto3 string takes it: valid UTF-8 (other bytes become '?'), at most `max` bytes
// (then it ends in "...").
std::string CleanText(std::string_view text, std::size_t max = kTextBytesMax);

// Collects the first thing that is wrong with a message; later checks are still harmless.
class Checker {
 public:
  explicit Checker(std::string_view message) : message_(message) {}

  void Fail(std::string_view field, std::string_view what);
  // Leaves `out` alone when the enumerator is unknown. `last` is the highest known one.
  template <typename E>
  void Enum(std::string_view field, std::uint32_t raw, E last, E* out) {
    if (raw > static_cast<std::uint32_t>(last)) {
      Fail(field, "has the unknown value " + std::to_string(raw));
    } else {
      *out = static_cast<E>(raw);
    }
  }
  void Text(std::string_view field, const std::string& in, std::string* out);
  // A node's name: not empty, no control byte.
  void Node(std::string_view field, const std::string& in, std::string* out);
  void Name(std::string_view field, const std::string& in, std::string* out);
  void Port(std::string_view field, std::uint32_t in, std::uint32_t* out);
  void Take(const Status& status) {
    if (status_.ok() && !status.ok()) status_ = status;
  }
  const Status& status() const { return status_; }

 private:
  std::string_view message_;
  Status status_;
};

void Put(const Fence& value, v1::Fence* out);
Fence Get(const v1::Fence& in);
void Put(const RequestId& value, v1::RequestId* out);
Status Get(const v1::RequestId& in, RequestId* out);
Status Get(const v1::AgentId& in, AgentId* out);
void Put(const Blame& value, v1::Blame* out);
Status Get(const v1::Blame& in, Blame* out);
void Put(const Verdict& value, v1::Verdict* out);
Status Get(const v1::Verdict& in, Verdict* out);
void PutStatus(const Status& value, std::uint32_t* code, std::string* message);
// A code that is not known becomes Unknown: a newer daemon's answer is an answer all the same.
Status GetStatus(std::uint32_t code, const std::string& message);

}  // namespace muster::protocol::wire
