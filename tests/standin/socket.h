#pragma once

// TCP sockets whose waits an Interrupt ends. No signal is raised, no descriptor survives exec.

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "tests/standin/interface.h"

namespace muster::standin {

// Set once, for good; every wait that looks at it ends.
class Interrupt {
 public:
  Interrupt();
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  void Set();
  bool is_set() const;
  int descriptor() const { return event_; }
  // Until it is set, or for so long. Negative: without end.
  void Wait(int milliseconds) const;

 private:
  const int event_;
};

enum class Io { kDone, kClosed, kInterrupted, kTimedOut };

class Socket {
 public:
  Socket() = default;
  explicit Socket(int descriptor) : descriptor_(descriptor) {}
  Socket(Socket&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  Socket& operator=(Socket&& other) noexcept;
  ~Socket();

  // One attempt.
  static Io Connect(const Address& address, const Interrupt& interrupt, Socket* socket);

  bool is_open() const { return descriptor_ >= 0; }
  int descriptor() const { return descriptor_; }
  Io Send(const void* bytes, std::size_t count, const Interrupt& interrupt);
  // `timeout_ms` negative: without end.
  Io Receive(void* bytes, std::size_t count, const Interrupt& interrupt, int timeout_ms = -1);

 private:
  Io WaitFor(short events, const Interrupt& interrupt, int timeout_ms) const;
  int descriptor_ = -1;
};

// A listening socket for several communicators: who connects says for which, and who it is.
class Listener {
 public:
  struct Hello {
    std::uint64_t hash = 0;  // of the communicator
    std::int32_t from = 0;
    std::int32_t reserved = 0;
    auto operator<=>(const Hello&) const = default;
  };

  // At a port of the system's choice; nothing if that fails.
  static std::shared_ptr<Listener> Open(const Address& address);
  const Address& address() const { return address_; }
  // The next connection, whoever it is from.
  Io AcceptAny(const Interrupt& interrupt, Socket* socket);
  // The connection that said `hello`; others are kept for whoever waits for them.
  Io Accept(const Hello& hello, const Interrupt& interrupt, Socket* socket);

 private:
  Listener(Socket socket, const Address& address) : socket_(std::move(socket)), address_(address) {}
  Socket socket_;
  Address address_;
  std::mutex mutex_;
  std::map<Hello, Socket> arrived_;
};

}  // namespace muster::standin
