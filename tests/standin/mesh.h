#pragma once

// Mesh: one connection between every two ranks of a communicator, and messages on them.
//
// Each message says of which operation it is and how long, so that ranks that do different things
// find out. While an exchange runs the death of any peer ends it, not only of those it waits for.
// A peer that ends its communicator in peace says goodbye first. One thread uses it at a time.

#include <optional>
#include <string>
#include <vector>

#include "tests/standin/socket.h"
#include "trainer_runtime/comm/nccl_api.h"

namespace muster::standin {

using comm::nccl::Code;

// Which operation a message belongs to.
struct Tag {
  std::uint32_t kind = 0;
  std::uint64_t sequence = 0;
};

struct SendPart {
  int peer = 0;
  const void* bytes = nullptr;
  std::size_t count = 0;
};
struct ReceivePart {
  int peer = 0;
  void* bytes = nullptr;
  std::size_t count = 0;
};

// kSuccess, kRemoteError (text), kInvalidUsage (text: another message than expected), or
// kInProgress: interrupted.
struct Outcome {
  Code code = Code::kSuccess;
  std::string text;
  bool ok() const { return code == Code::kSuccess; }
};

class Mesh {
 public:
  Mesh(int rank, int size, std::vector<Address> addresses);

  int rank() const { return rank_; }
  int size() const { return size_; }
  const std::vector<Address>& addresses() const { return addresses_; }

  Outcome Connect(Listener& listener, std::uint64_t hash, const Interrupt& interrupt);
  // All at once; parts between the same two ranks in order.
  Outcome Exchange(Tag tag, const std::vector<SendPart>& sends,
                   const std::vector<ReceivePart>& receives, const Interrupt& interrupt);
  // Looks whether a peer is gone without goodbye. Not during Exchange.
  Outcome LookAtPeers();
  // Says goodbye and waits a little for the others' ends: a socket closed with unread bytes would
  // destroy what the peer has not read yet.
  void Leave();

 private:
  struct Header {
    std::uint32_t magic = 0;
    std::uint32_t kind = 0;
    std::uint64_t sequence = 0;
    std::uint64_t bytes = 0;
  };
  struct Peer {
    Socket socket;
    bool has_left = false;  // said goodbye
  };
  class Progress;

  // Sends and receives what it can with one peer.
  Outcome Advance(int peer, bool has_end, Tag tag, Progress& state);
  Outcome Mismatch(int peer, const Header& header, Tag tag) const;
  // The state of a connection that has an end: nothing, or why the peer counts as gone.
  std::optional<std::string> EndOf(int peer);
  std::string Closed(int peer) const;

  const int rank_, size_;
  const std::vector<Address> addresses_;
  std::vector<Peer> peers_;
};

}  // namespace muster::standin
