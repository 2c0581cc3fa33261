#include "trainer_runtime/session/connection.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <thread>
#include <utility>

#include "common/text.h"

namespace muster::session {
namespace {

// An agent that reads nothing for this long is not coming back; leases are far shorter.
constexpr timeval kSendTimeout{.tv_sec = 60, .tv_usec = 0};
// Between two tries to connect to an agent that is still starting.
constexpr auto kConnectPause = std::chrono::milliseconds(10);

// Never zero, which would mean no limit.
timeval SendTimeout(Duration left) {
  const auto microseconds = std::max<std::int64_t>(
      std::chrono::duration_cast<std::chrono::microseconds>(left).count(), 1000);
  return {.tv_sec = microseconds / 1'000'000, .tv_usec = microseconds % 1'000'000};
}

Result<sockaddr_un> AddressOf(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof(address.sun_path)) {
    return InvalidArgument(Concat("the agent's socket ", Quote(path), " has ", path.size(),
                                  " bytes; a Unix socket's path has 1 to ",
                                  sizeof(address.sun_path) - 1));
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

// A stranger who took the path's place would hand us a world of his own.
Status CheckPeer(int descriptor, const std::string& path) {
  ucred peer{};
  socklen_t size = sizeof(peer);
  if (getsockopt(descriptor, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) {
    return FromErrno(errno, Concat("cannot read who serves the agent's socket ", Quote(path)));
  }
  if (peer.uid == geteuid() || peer.uid == 0) return OkStatus();
  return PermissionDenied(Concat("the agent's socket ", Quote(path), " is served by user id ",
                                 peer.uid, ", this process is user id ", geteuid()));
}

}  // namespace

Result<Connection> Connection::Connect(const std::string& path, Duration timeout) {
  MUSTER_ASSIGN_OR_RETURN(const sockaddr_un address, AddressOf(path));
  const TimePoint deadline = SteadyNow() + timeout;
  while (true) {
    const int descriptor = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (descriptor < 0) return FromErrno(errno, "cannot open a Unix socket");
    Connection connection(descriptor);
    // A full queue of connections would hold connect() for as long as it is full.
    const timeval patience = SendTimeout(deadline - SteadyNow());
    setsockopt(descriptor, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
    if (connect(descriptor, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0) {
      MUSTER_RETURN_IF_ERROR(CheckPeer(descriptor, path));
      setsockopt(descriptor, SOL_SOCKET, SO_SNDTIMEO, &kSendTimeout, sizeof(kSendTimeout));
      return connection;
    }
    const int error = errno;
    const bool may_come =
        error == ENOENT || error == ECONNREFUSED || error == EAGAIN || error == EINTR;
    if (!may_come || SteadyNow() >= deadline) {
      return FromErrno(error, Concat("cannot connect to the agent's socket ", Quote(path),
                                     " within ", FormatDuration(timeout)));
    }
    std::this_thread::sleep_for(kConnectPause);
  }
}

Connection::Connection(Connection&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)) {}

Connection::~Connection() {
  if (descriptor_ >= 0) close(descriptor_);
}

Status Connection::SendRest(std::string_view frame) {
  while (!frame.empty()) {
    const ssize_t sent = send(descriptor_, frame.data(), frame.size(), MSG_NOSIGNAL);
    if (sent < 0) {
      if (errno == EINTR) continue;
      const int error = errno;
      shutdown(descriptor_, SHUT_RDWR);  // half a frame may be out: nothing can follow it
      return FromErrno(error, "cannot send to the agent");
    }
    frame.remove_prefix(static_cast<std::size_t>(sent));
  }
  return OkStatus();
}

Status Connection::Send(std::string_view frame) {
  const std::lock_guard lock(send_mutex_);
  return SendRest(frame);
}

Status Connection::SendOrDrop(std::string_view frame) {
  const std::lock_guard lock(send_mutex_);
  const ssize_t sent = send(descriptor_, frame.data(), frame.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent < 0 && (errno == EAGAIN || errno == EINTR)) return OkStatus();
  if (sent < 0) return FromErrno(errno, "cannot send to the agent");
  // A stream socket may take a part; the rest must follow before anybody else's frame.
  return SendRest(frame.substr(static_cast<std::size_t>(sent)));
}

Status Connection::ReceiveBytes(char* bytes, std::size_t count) {
  while (count > 0) {
    const ssize_t received = recv(descriptor_, bytes, count, 0);
    if (received == 0) return Unavailable("the agent closed the worker's socket");
    if (received < 0) {
      if (errno == EINTR) continue;
      return FromErrno(errno, "cannot read from the agent");
    }
    bytes += received;
    count -= static_cast<std::size_t>(received);
  }
  return OkStatus();
}

Result<Frame> Connection::Receive() {
  char raw[local::kHeaderBytes];
  MUSTER_RETURN_IF_ERROR(ReceiveBytes(raw, sizeof(raw)));
  const local::FrameHeader header = local::ReadHeader(std::string_view(raw, sizeof(raw)));
  if (header.version != local::kVersion || header.length > local::kFrameBytesMax) {
    return InvalidArgument(Concat("the agent sent a frame of version ", header.version, " and ",
                                  header.length, " bytes; known is version ", local::kVersion,
                                  ", at most ", local::kFrameBytesMax, " bytes"));
  }
  Frame frame;
  frame.type = header.type;
  frame.payload.resize(header.length);
  MUSTER_RETURN_IF_ERROR(ReceiveBytes(frame.payload.data(), frame.payload.size()));
  return frame;
}

void Connection::Shutdown() { shutdown(descriptor_, SHUT_RDWR); }

}  // namespace muster::session
