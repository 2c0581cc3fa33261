#pragma once

// Accepts connections from a socket that somebody else has bound and keeps: the port outlives the
// daemon, and who connects while no daemon runs waits in the socket's queue for the next one.
//
// A thread of its own, so that thousands that connect at once do not wait for anything else. Near
// the limit of descriptors a connection is closed at once (the far end tries again) instead of the
// process being wedged.

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <thread>

#include "common/status.h"

namespace muster::server {

// Descriptors for journal, state files and gRPC's own needs.
inline constexpr int kReservedDescriptors = 48;

class Acceptor {
 public:
  // `take` gets connected, non-blocking, close-on-exec descriptors and owns them. `listen_fd` stays
  // the caller's. Descriptors numbered `descriptor_limit` - kReservedDescriptors or more are shed.
  static Result<std::unique_ptr<Acceptor>> Start(int listen_fd, int descriptor_limit,
                                                 std::function<void(int)> take);
  // Stops accepting and waits for the thread.
  ~Acceptor();
  Acceptor(const Acceptor&) = delete;
  Acceptor& operator=(const Acceptor&) = delete;

  std::uint64_t accepted() const { return accepted_; }
  std::uint64_t shed() const { return shed_; }

 private:
  Acceptor(int listen_fd, int wake_fd, int descriptor_limit, std::function<void(int)> take);
  void Run();
  // False when nothing more can be accepted now.
  bool AcceptOne();
  void ShedOne();

  const int listen_fd_;
  const int wake_fd_;
  const int descriptor_limit_;
  const std::function<void(int)> take_;
  int spare_fd_;  // given up for a moment to accept and close a connection without descriptors
  std::atomic<bool> ending_{false};
  std::atomic<std::uint64_t> accepted_{0};
  std::atomic<std::uint64_t> shed_{0};
  std::thread thread_;
};

// Raises the soft limit of open files to the hard one and gives it. ResourceExhausted if even that
// is below what `connections` need.
Result<int> RaiseDescriptorLimit(std::uint64_t connections);

}  // namespace muster::server
