#include "tests/standin/mesh.h"

#include <poll.h>

#include <cerrno>
#include <chrono>
#include <deque>
#include <utility>

namespace muster::standin {
namespace {

constexpr std::uint32_t kMagic = 0x6d757374;
constexpr std::uint32_t kGoodbye = 0xffffffff;
constexpr auto kLeaveTimeout = std::chrono::seconds(1);  // for all peers together
constexpr int kLeaveStepMs = 50;

std::size_t Index(int rank) { return static_cast<std::size_t>(rank); }

}  // namespace

// What is on its way between this rank and one other during an exchange.
class Mesh::Progress {
 public:
  struct Out {
    Header header;
    const char* bytes = nullptr;
    std::size_t done = 0;  // header included
  };
  struct In {
    char* bytes = nullptr;
    std::size_t count = 0;
    std::size_t done = 0;
  };
  std::deque<Out> out;
  std::deque<In> in;
  Header header;  // of the first of `in`
  bool ignores_end = false;

  bool idle() const { return out.empty() && in.empty(); }

  // False: the connection is broken.
  bool Send(int descriptor) {
    while (!out.empty()) {
      Out& part = out.front();
      const bool in_header = part.done < sizeof(Header);
      const char* from = in_header ? reinterpret_cast<const char*>(&part.header) + part.done
                                   : part.bytes + (part.done - sizeof(Header));
      const std::size_t left =
          (in_header ? sizeof(Header) : sizeof(Header) + part.header.bytes) - part.done;
      if (left > 0) {
        const ssize_t sent = send(descriptor, from, left, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0) return errno == EAGAIN || errno == EINTR;
        part.done += static_cast<std::size_t>(sent);
      }
      if (part.done == sizeof(Header) + part.header.bytes) out.pop_front();
    }
    return true;
  }

  enum class Got { kSome, kEnd, kMismatch };
  Got Receive(int descriptor, Tag tag) {
    while (!in.empty()) {
      In& part = in.front();
      const bool in_header = part.done < sizeof(Header);
      char* to = in_header ? reinterpret_cast<char*>(&header) + part.done
                           : part.bytes + (part.done - sizeof(Header));
      const std::size_t left =
          (in_header ? sizeof(Header) : sizeof(Header) + part.count) - part.done;
      if (left > 0) {
        const ssize_t got = recv(descriptor, to, left, MSG_DONTWAIT);
        if (got == 0) return Got::kEnd;
        if (got < 0) return errno == EAGAIN || errno == EINTR ? Got::kSome : Got::kEnd;
        part.done += static_cast<std::size_t>(got);
      }
      if (part.done == sizeof(Header) && in_header && !Fits(part, tag)) return Got::kMismatch;
      if (part.done == sizeof(Header) + part.count) in.pop_front();
    }
    return Got::kSome;
  }

 private:
  bool Fits(const In& part, Tag tag) const {
    return header.magic == kMagic && header.kind == tag.kind && header.sequence == tag.sequence &&
           header.bytes == part.count;
  }
};

Mesh::Mesh(int rank, int size, std::vector<Address> addresses)
    : rank_(rank), size_(size), addresses_(std::move(addresses)), peers_(Index(size)) {}

std::string Mesh::Closed(int peer) const {
  return "socketProgress: Connection closed by remote peer " + ToString(addresses_[Index(peer)]) +
         " (rank " + std::to_string(peer) + ")";
}

Outcome Mesh::Connect(Listener& listener, std::uint64_t hash, const Interrupt& interrupt) {
  for (int peer = 0; peer < size_; ++peer) {
    if (peer == rank_) continue;
    Socket& socket = peers_[Index(peer)].socket;
    Io io = Io::kDone;
    if (peer < rank_) {
      const Listener::Hello hello{hash, rank_, 0};
      io = Socket::Connect(addresses_[Index(peer)], interrupt, &socket);
      if (io == Io::kDone) io = socket.Send(&hello, sizeof(hello), interrupt);
    } else {
      io = listener.Accept({hash, peer, 0}, interrupt, &socket);
    }
    if (io == Io::kInterrupted) return {Code::kInProgress, ""};
    if (io != Io::kDone) return {Code::kRemoteError, Closed(peer)};
  }
  return {};
}

std::optional<std::string> Mesh::EndOf(int peer) {
  Peer& state = peers_[Index(peer)];
  if (state.has_left || !state.socket.is_open()) return std::nullopt;
  Header header;
  const ssize_t got =
      recv(state.socket.descriptor(), &header, sizeof(header), MSG_PEEK | MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return std::nullopt;
  if (got <= 0) return Closed(peer);
  if (got == sizeof(header) && header.magic == kMagic && header.kind == kGoodbye) {
    state.has_left = true;
  }
  return std::nullopt;
}

Outcome Mesh::LookAtPeers() {
  for (int peer = 0; peer < size_; ++peer) {
    if (peer == rank_) continue;
    if (const auto why = EndOf(peer)) return {Code::kRemoteError, *why};
  }
  return {};
}

Outcome Mesh::Mismatch(int peer, const Header& header, Tag tag) const {
  const std::string rank = "rank " + std::to_string(peer);
  if (header.magic == kMagic && header.kind == kGoodbye) {
    return {Code::kRemoteError, rank + " has ended its communicator before this operation"};
  }
  return {Code::kInvalidUsage,
          rank + " runs another operation: kind " + std::to_string(header.kind) + " number " +
              std::to_string(header.sequence) + " of " + std::to_string(header.bytes) +
              " bytes, here kind " + std::to_string(tag.kind) + " number " +
              std::to_string(tag.sequence)};
}

Outcome Mesh::Advance(int peer, bool has_end, Tag tag, Progress& state) {
  const int descriptor = peers_[Index(peer)].socket.descriptor();
  if (!state.out.empty() && !state.Send(descriptor)) return {Code::kRemoteError, Closed(peer)};
  switch (state.Receive(descriptor, tag)) {
    case Progress::Got::kSome:
      break;
    case Progress::Got::kEnd:
      return {Code::kRemoteError, Closed(peer)};
    case Progress::Got::kMismatch:
      return Mismatch(peer, state.header, tag);
  }
  if (has_end && state.in.empty()) {
    // Its last messages may still be unread: then it is found out when they have been.
    if (const auto why = EndOf(peer)) return {Code::kRemoteError, *why};
    state.ignores_end = true;
  }
  return {};
}

Outcome Mesh::Exchange(Tag tag, const std::vector<SendPart>& sends,
                       const std::vector<ReceivePart>& receives, const Interrupt& interrupt) {
  std::vector<Progress> progress(Index(size_));
  for (const SendPart& part : sends) {
    progress[Index(part.peer)].out.push_back(
        {{kMagic, tag.kind, tag.sequence, part.count}, static_cast<const char*>(part.bytes), 0});
  }
  for (const ReceivePart& part : receives) {
    progress[Index(part.peer)].in.push_back({static_cast<char*>(part.bytes), part.count, 0});
  }
  while (true) {
    std::vector<pollfd> entries = {{interrupt.descriptor(), POLLIN, 0}};
    std::vector<int> ranks = {rank_};
    bool is_over = true;
    for (int peer = 0; peer < size_; ++peer) {
      const Progress& state = progress[Index(peer)];
      if (peer == rank_) continue;
      is_over = is_over && state.idle();
      int events = state.ignores_end || peers_[Index(peer)].has_left ? 0 : POLLRDHUP;
      if (!state.out.empty()) events |= POLLOUT;
      if (!state.in.empty()) events |= POLLIN;
      if (events == 0) continue;
      entries.push_back({peers_[Index(peer)].socket.descriptor(), static_cast<short>(events), 0});
      ranks.push_back(peer);
    }
    if (is_over) return {};
    if (poll(entries.data(), entries.size(), -1) < 0) continue;  // EINTR
    if (entries[0].revents != 0) return {Code::kInProgress, ""};
    for (std::size_t i = 1; i < entries.size(); ++i) {
      if (entries[i].revents == 0) continue;
      const bool has_end = (entries[i].revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
      Outcome outcome = Advance(ranks[i], has_end, tag, progress[Index(ranks[i])]);
      if (!outcome.ok()) return outcome;
    }
  }
}

void Mesh::Leave() {
  const Interrupt never;
  const auto deadline = std::chrono::steady_clock::now() + kLeaveTimeout;
  const Header goodbye{kMagic, kGoodbye, 0, 0};
  for (Peer& peer : peers_) {
    if (!peer.socket.is_open()) continue;
    send(peer.socket.descriptor(), &goodbye, sizeof(goodbye), MSG_NOSIGNAL | MSG_DONTWAIT);
    shutdown(peer.socket.descriptor(), SHUT_WR);
  }
  for (Peer& peer : peers_) {
    if (!peer.socket.is_open()) continue;
    char byte = 0;
    while (std::chrono::steady_clock::now() < deadline &&
           peer.socket.Receive(&byte, 1, never, kLeaveStepMs) != Io::kClosed) {
    }
  }
}

}  // namespace muster::standin
