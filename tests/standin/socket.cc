#include "tests/standin/socket.h"

#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>

namespace muster::standin {
namespace {

// A stranger that connects and says nothing may not hold up the others for longer.
constexpr int kHelloTimeoutMs = 2000;
// Several threads may wait at one listener: each looks again after this.
constexpr int kAcceptPeriodMs = 20;

void SetNoDelay(int descriptor) {
  const int one = 1;
  setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
}

}  // namespace

// ------------------------------------------------------------------------------- interrupt

Interrupt::Interrupt() : event_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}
Interrupt::~Interrupt() { close(event_); }

void Interrupt::Set() {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(event_, &one, sizeof(one));
}

void Interrupt::Wait(int milliseconds) const {
  pollfd entry{event_, POLLIN, 0};
  while (poll(&entry, 1, milliseconds) < 0 && errno == EINTR) {
  }
}

bool Interrupt::is_set() const {
  pollfd entry{event_, POLLIN, 0};
  return poll(&entry, 1, 0) > 0;
}

// ------------------------------------------------------------------------------- socket

Socket& Socket::operator=(Socket&& other) noexcept {
  if (this != &other) {
    if (descriptor_ >= 0) close(descriptor_);
    descriptor_ = std::exchange(other.descriptor_, -1);
  }
  return *this;
}

Socket::~Socket() {
  if (descriptor_ >= 0) close(descriptor_);
}

Io Socket::WaitFor(short events, const Interrupt& interrupt, int timeout_ms) const {
  pollfd entries[2] = {{descriptor_, events, 0}, {interrupt.descriptor(), POLLIN, 0}};
  const int ready = poll(entries, 2, timeout_ms);
  if (ready < 0 && errno != EINTR) return Io::kClosed;
  if (entries[1].revents != 0) return Io::kInterrupted;
  return ready == 0 ? Io::kTimedOut : Io::kDone;
}

Io Socket::Connect(const Address& address, const Interrupt& interrupt, Socket* socket) {
  Socket attempt(::socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!attempt.is_open()) return Io::kClosed;
  if (connect(attempt.descriptor_, address.raw(), address.size()) != 0) {
    if (errno != EINPROGRESS) return Io::kClosed;
    if (const Io io = attempt.WaitFor(POLLOUT, interrupt, -1); io != Io::kDone) return io;
    int error = 0;
    socklen_t size = sizeof(error);
    getsockopt(attempt.descriptor_, SOL_SOCKET, SO_ERROR, &error, &size);
    if (error != 0) return Io::kClosed;
  }
  SetNoDelay(attempt.descriptor_);
  *socket = std::move(attempt);
  return Io::kDone;
}

Io Socket::Send(const void* bytes, std::size_t count, const Interrupt& interrupt) {
  const char* next = static_cast<const char*>(bytes);
  while (count > 0) {
    const ssize_t sent = send(descriptor_, next, count, MSG_NOSIGNAL);
    if (sent > 0) {
      next += sent;
      count -= static_cast<std::size_t>(sent);
    } else if (errno == EAGAIN) {
      if (const Io io = WaitFor(POLLOUT, interrupt, -1); io != Io::kDone) return io;
    } else if (errno != EINTR) {
      return Io::kClosed;
    }
  }
  return Io::kDone;
}

Io Socket::Receive(void* bytes, std::size_t count, const Interrupt& interrupt, int timeout_ms) {
  char* next = static_cast<char*>(bytes);
  while (count > 0) {
    const ssize_t got = recv(descriptor_, next, count, MSG_DONTWAIT);
    if (got > 0) {
      next += got;
      count -= static_cast<std::size_t>(got);
    } else if (got < 0 && errno == EAGAIN) {
      if (const Io io = WaitFor(POLLIN, interrupt, timeout_ms); io != Io::kDone) return io;
    } else if (got == 0 || errno != EINTR) {
      return Io::kClosed;
    }
  }
  return Io::kDone;
}

// ------------------------------------------------------------------------------- listener

std::shared_ptr<Listener> Listener::Open(const Address& address) {
  Socket socket(::socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.is_open() || bind(socket.descriptor(), address.raw(), address.size()) != 0 ||
      listen(socket.descriptor(), SOMAXCONN) != 0) {
    return nullptr;
  }
  Address bound;
  socklen_t size = sizeof(bound.bytes);
  if (getsockname(socket.descriptor(), bound.raw(), &size) != 0) return nullptr;
  return std::shared_ptr<Listener>(new Listener(std::move(socket), bound));
}

Io Listener::AcceptAny(const Interrupt& interrupt, Socket* socket) {
  while (true) {
    const int descriptor =
        accept4(socket_.descriptor(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (descriptor >= 0) {
      SetNoDelay(descriptor);
      *socket = Socket(descriptor);
      return Io::kDone;
    }
    if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED) return Io::kClosed;
    pollfd entries[2] = {{socket_.descriptor(), POLLIN, 0}, {interrupt.descriptor(), POLLIN, 0}};
    const int ready = poll(entries, 2, kAcceptPeriodMs);
    if (entries[1].revents != 0) return Io::kInterrupted;
    if (ready == 0) return Io::kTimedOut;
  }
}

Io Listener::Accept(const Hello& hello, const Interrupt& interrupt, Socket* socket) {
  while (true) {
    const std::lock_guard lock(mutex_);
    if (const auto place = arrived_.find(hello); place != arrived_.end()) {
      *socket = std::move(place->second);
      arrived_.erase(place);
      return Io::kDone;
    }
    Socket next;
    const Io io = AcceptAny(interrupt, &next);
    if (io == Io::kTimedOut) continue;
    if (io != Io::kDone) return io;
    Hello said;
    const Io heard = next.Receive(&said, sizeof(said), interrupt, kHelloTimeoutMs);
    if (heard == Io::kInterrupted) return heard;
    if (heard == Io::kDone) arrived_[said] = std::move(next);
  }
}

}  // namespace muster::standin
