#pragma once

// Connection: whole frames of proto/local.h over a Unix stream socket.
//
// Send is thread-safe and never raises SIGPIPE; a frame is on the socket whole or the connection is
// broken for good. Receive belongs to one thread. Used by Session only.

#include <mutex>
#include <string>
#include <string_view>

#include "common/status.h"
#include "common/time.h"
#include "proto/local.h"

namespace muster::session {

struct Frame {
  local::FrameType type{};
  std::string payload;
};

class Connection {
 public:
  // Tries until `timeout` while nobody listens yet. PermissionDenied if the socket's owner is
  // neither this user nor root.
  static Result<Connection> Connect(const std::string& path, Duration timeout);

  Connection(Connection&& other) noexcept;
  Connection& operator=(Connection&&) = delete;
  ~Connection();

  // Waits for room for at most kSendTimeout, then the connection is broken.
  Status Send(std::string_view frame);
  // Drops the frame instead of waiting. For what the next frame of its kind replaces.
  Status SendOrDrop(std::string_view frame);

  // The next frame, of any type. Unavailable after the other side closed; InvalidArgument for a
  // frame that is too long or of another version: both end the connection.
  Result<Frame> Receive();

  // Ends a Receive that waits, and everything later. Any thread.
  void Shutdown();

 private:
  explicit Connection(int descriptor) : descriptor_(descriptor) {}
  // REQUIRES: send_mutex_ held.
  Status SendRest(std::string_view frame);
  Status ReceiveBytes(char* bytes, std::size_t count);

  int descriptor_;
  std::mutex send_mutex_;
};

}  // namespace muster::session
