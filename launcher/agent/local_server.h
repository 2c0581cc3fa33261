#pragma once

// The agent's Unix socket: MUSTER_AGENT_SOCKET, where workers speak proto/local.h.
//
// Only the own uid gets in (SO_PEERCRED, besides the folder's 0700), and only a worker or what a
// worker started. A connection that sends what is not understood, or does not read what it is sent,
// is ended; nothing else is. Lives on the supervisor's loop.

#include <sys/types.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "common/log.h"
#include "launcher/agent/event_loop.h"
#include "launcher/agent/files.h"
#include "launcher/agent/local_messages.h"
#include "launcher/agent/supervisor_machine.h"

namespace muster::agent {

using ConnectionId = std::uint64_t;

struct LocalServerEvents {
  // Whose process this is; nothing for a stranger.
  std::function<std::optional<WorkerId>(pid_t)> identify;
  std::function<void(ConnectionId, WorkerId, LocalMessage)> on_message;
};

class LocalServer {
 public:
  LocalServer(EventLoop* loop, LocalServerEvents events);
  ~LocalServer();
  LocalServer(const LocalServer&) = delete;
  LocalServer& operator=(const LocalServer&) = delete;

  // Removes an old socket file of that name first. `path` has at most 107 bytes.
  Status Listen(const std::string& path);
  void Send(ConnectionId connection, const std::string& frame);
  // To the connection on which this worker registered last; false if there is none.
  bool SendToWorker(const WorkerId& worker, const std::string& frame);
  // Ends what this worker's processes have open.
  void CloseWorker(const WorkerId& worker);

 private:
  struct Connection;
  void OnAccept();
  void OnReadable(ConnectionId id);
  void Flush(ConnectionId id);
  void Close(ConnectionId id, const std::string& reason);
  std::size_t CountOf(const WorkerId& worker) const;

  EventLoop* const loop_;
  const LocalServerEvents events_;
  Descriptor listener_;
  EventLoop::Id accept_watch_ = 0;
  std::string path_;
  ConnectionId next_ = 1;
  std::map<ConnectionId, std::unique_ptr<Connection>> connections_;
  std::map<WorkerId, ConnectionId> registered_;
  LogChanged refused_;  // a process that tries without end fills no log
};

}  // namespace muster::agent
