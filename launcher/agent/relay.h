#pragma once

// Workers' keys, barriers and requests on their way to the daemon: the agent's one channel carries
// them for all its workers. Local barriers are joined before the daemon is asked once for all ranks
// of this agent. A daemon that is away for a moment is asked again with the same number, so nothing
// is done twice.
//
// Lives on the supervisor's loop; the client's callbacks are posted there.

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "launcher/agent/event_loop.h"
#include "launcher/agent/local_messages.h"
#include "launcher/agent/local_server.h"
#include "rendezvousd/client/client.h"

namespace muster::agent {

// A worker's round as its agent sees it.
struct RelayCaller {
  protocol::Fence fence;
  std::uint32_t rank = 0;
  std::set<std::uint32_t> agent_ranks;  // of all workers of this agent in that round
};

class Relay {
 public:
  using Answer = std::function<void(ConnectionId, const std::string& frame)>;

  Relay(EventLoop* loop, client::Client* client, protocol::AgentId agent, Answer answer);
  ~Relay();
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;

  void Key(ConnectionId connection, const RelayCaller& caller, LocalKey message);
  void Barrier(ConnectionId connection, const RelayCaller& caller, LocalBarrier message);
  void Reply(ConnectionId connection, std::uint64_t id, const Status& status,
             const std::string& value = "", std::int64_t number = 0);
  // Frees with FailedPrecondition who still waits here in a barrier of this round or an older one.
  // What has gone to the daemon is answered by the daemon.
  void EndRounds(const protocol::Fence& newest);

 private:
  struct KeyCall;
  struct BarrierCall;
  using BarrierName = std::pair<protocol::Fence, std::string>;
  void SendKey(std::shared_ptr<KeyCall> call);
  void SendBarrier(std::shared_ptr<BarrierCall> call);
  void EndBarrier(const std::shared_ptr<BarrierCall>& call, const Status& status);

  EventLoop* const loop_;
  client::Client* const client_;
  const protocol::AgentId agent_;
  const Answer answer_;
  std::uint64_t next_number_ = 1;
  std::map<BarrierName, std::shared_ptr<BarrierCall>> barriers_;
  // Gone with this object: work posted for it finds it expired.
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  // `work` on the loop, if this object is still there. For any thread: the loop outlives the
  // client.
  static void PostIfAlive(EventLoop* loop, std::weak_ptr<bool> alive, std::function<void()> work);
  void Later(std::function<void()> work);
};

}  // namespace muster::agent
