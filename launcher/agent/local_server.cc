#include "launcher/agent/local_server.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "common/log.h"
#include "common/text.h"

namespace muster::agent {
namespace {

// A program and some commands that it calls; more is a leak, and would eat the agent's descriptors.
constexpr std::size_t kConnectionsPerWorkerMax = 16;
// A connection with this much unsent is not read from until it has taken some: asking for more
// large values than the socket holds is slow, not wrong.
constexpr std::size_t kUnsentBytesPause = 4U << 20U;
// What was asked for before the pause may still come. Who does not read that much is not reading.
constexpr std::size_t kUnsentBytesMax = 256U << 20U;
// Frames of one connection that are worked on before others get their turn.
constexpr int kReadsPerTurn = 4;

}  // namespace

struct LocalServer::Connection {
  Descriptor socket;
  WorkerId worker;
  EventLoop::Id watch = 0;
  EventLoop::Id write_watch = 0;
  FrameStream in;
  std::string out;
  std::size_t out_sent = 0;  // bytes of `out` that have left
  std::size_t unsent() const { return out.size() - out_sent; }
};

LocalServer::LocalServer(EventLoop* loop, LocalServerEvents events)
    : loop_(loop), events_(std::move(events)) {}

LocalServer::~LocalServer() {
  while (!connections_.empty()) Close(connections_.begin()->first, "");
  if (accept_watch_ != 0) loop_->Unwatch(accept_watch_);
  if (!path_.empty()) unlink(path_.c_str());
}

Status LocalServer::Listen(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) {
    return InvalidArgument(Concat("the agent's socket ", path, " has ", path.size(),
                                  " bytes; Linux allows ", sizeof(address.sun_path) - 1,
                                  ": choose a shorter --local-dir"));
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  unlink(path.c_str());
  listener_ = Descriptor(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!listener_.valid()) return FromErrno(errno, "cannot make the agent's socket");
  if (bind(listener_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    return FromErrno(errno, Concat("cannot bind the agent's socket ", path));
  }
  path_ = path;
  if (chmod(path.c_str(), 0600) != 0 || listen(listener_.get(), SOMAXCONN) != 0) {
    return FromErrno(errno, Concat("cannot listen on ", path));
  }
  accept_watch_ = loop_->WatchReadable(listener_.get(), [this] { OnAccept(); });
  return OkStatus();
}

std::size_t LocalServer::CountOf(const WorkerId& worker) const {
  return static_cast<std::size_t>(
      std::count_if(connections_.begin(), connections_.end(),
                    [&worker](const auto& entry) { return entry.second->worker == worker; }));
}

void LocalServer::OnAccept() {
  Descriptor peer(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!peer.valid()) return;
  ucred who{};
  socklen_t size = sizeof(who);
  if (getsockopt(peer.get(), SOL_SOCKET, SO_PEERCRED, &who, &size) != 0) return;
  if (who.uid != geteuid()) {
    refused_.Say(LogLevel::kWarning,
                 Concat("refused process ", who.pid, " of uid ", who.uid, " at ", path_));
    return;
  }
  const std::optional<WorkerId> worker = events_.identify(who.pid);
  if (!worker) {
    refused_.Say(LogLevel::kWarning,
                 Concat("refused process ", who.pid, " at ", path_, ": no worker started it"));
    return;
  }
  if (CountOf(*worker) >= kConnectionsPerWorkerMax) {
    refused_.Say(LogLevel::kWarning,
                 Concat("refused process ", who.pid, " at ", path_, ": worker ", worker->slot,
                        " has ", kConnectionsPerWorkerMax, " connections already"));
    return;
  }
  const ConnectionId id = next_++;
  auto connection = std::make_unique<Connection>();
  connection->worker = *worker;
  connection->watch = loop_->WatchReadable(peer.get(), [this, id] { OnReadable(id); });
  connection->socket = std::move(peer);
  connections_[id] = std::move(connection);
}

void LocalServer::OnReadable(ConnectionId id) {
  std::array<char, 65536> buffer;
  for (int turn = 0; turn < kReadsPerTurn; ++turn) {
    const auto found = connections_.find(id);
    if (found == connections_.end()) return;
    Connection& connection = *found->second;
    if (connection.unsent() > kUnsentBytesPause) {
      loop_->Unwatch(connection.watch);
      connection.watch = 0;
      return;
    }
    const ssize_t count = recv(connection.socket.get(), buffer.data(), buffer.size(), 0);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (count <= 0) {
      Close(id, "");
      return;
    }
    connection.in.Append(std::string_view(buffer.data(), static_cast<std::size_t>(count)));
    while (connections_.contains(id)) {
      Result<std::optional<LocalMessage>> message = connection.in.Next();
      if (!message.ok()) {
        Close(id, message.status().message());
        return;
      }
      if (!*message) break;
      const WorkerId worker = connection.worker;
      if (std::holds_alternative<LocalRegister>(**message)) registered_[worker] = id;
      events_.on_message(id, worker, std::move(**message));
    }
  }
}

void LocalServer::Send(ConnectionId id, const std::string& frame) {
  const auto found = connections_.find(id);
  if (found == connections_.end()) return;
  found->second->out += frame;
  Flush(id);
}

bool LocalServer::SendToWorker(const WorkerId& worker, const std::string& frame) {
  const auto found = registered_.find(worker);
  if (found == registered_.end()) return false;
  const ConnectionId id = found->second;
  Send(id, frame);
  return connections_.contains(id);
}

void LocalServer::Flush(ConnectionId id) {
  const auto found = connections_.find(id);
  if (found == connections_.end()) return;
  Connection& connection = *found->second;
  while (connection.unsent() > 0) {
    const ssize_t count = send(connection.socket.get(), connection.out.data() + connection.out_sent,
                               connection.unsent(), MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) break;
    if (count < 0) {
      // The reader notices the end by itself; closing here would pull it from under a caller.
      connection.out.clear();
      connection.out_sent = 0;
      break;
    }
    connection.out_sent += static_cast<std::size_t>(count);
  }
  // Moved in large pieces only, so that a long queue costs no square.
  if (connection.out_sent >= connection.unsent()) {
    connection.out.erase(0, connection.out_sent);
    connection.out_sent = 0;
  }
  if (connection.watch == 0 && connection.unsent() <= kUnsentBytesPause) {
    connection.watch =
        loop_->WatchReadable(connection.socket.get(), [this, id] { OnReadable(id); });
  }
  if (connection.unsent() > kUnsentBytesMax) {
    loop_->Post([this, id] { Close(id, "it does not read what it is sent"); });
    return;
  }
  if (connection.unsent() == 0 || connection.write_watch != 0) return;
  connection.write_watch = loop_->WhenWritable(connection.socket.get(), [this, id] {
    const auto again = connections_.find(id);
    if (again == connections_.end()) return;
    again->second->write_watch = 0;
    Flush(id);
  });
}

void LocalServer::Close(ConnectionId id, const std::string& reason) {
  const auto found = connections_.find(id);
  if (found == connections_.end()) return;
  Connection& connection = *found->second;
  if (!reason.empty()) {
    LogWarning(Concat("ended a connection of worker ", connection.worker.slot, ": ", reason));
  }
  if (connection.watch != 0) loop_->Unwatch(connection.watch);
  if (connection.write_watch != 0) loop_->Unwatch(connection.write_watch);
  const auto registered = registered_.find(connection.worker);
  if (registered != registered_.end() && registered->second == id) registered_.erase(registered);
  connections_.erase(found);
}

void LocalServer::CloseWorker(const WorkerId& worker) {
  std::vector<ConnectionId> ids;
  for (const auto& [id, connection] : connections_) {
    if (connection->worker == worker) ids.push_back(id);
  }
  for (const ConnectionId id : ids) Close(id, "");
}

}  // namespace muster::agent
