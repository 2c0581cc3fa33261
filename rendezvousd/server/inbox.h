#pragma once

// What gRPC's threads post to the loop, and the queue between them. Posting never blocks for long;
// the loop takes everything at once. Thread-safe.

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "common/time.h"
#include "rendezvousd/core/machine.h"
#include "rendezvousd/protocol/messages.h"
#include "rendezvousd/server/peers.h"

namespace muster::server {

struct AgentSaid {
  std::shared_ptr<AgentPeer> peer;
  protocol::Upward message;
};
struct AgentEnded {
  std::shared_ptr<AgentPeer> peer;
};
struct HostAttached {
  std::shared_ptr<HostPeer> peer;
};
struct HostSaid {
  std::shared_ptr<HostPeer> peer;
  protocol::HostUp message;
};
struct HostEnded {
  std::shared_ptr<HostPeer> peer;
};
struct KeyAsked {
  core::Token token = 0;
  protocol::KeyRequest request;
  TimePoint answer_by;  // steady time
  std::shared_ptr<KeyReply> reply;
};
struct BarrierAsked {
  core::Token token = 0;
  protocol::BarrierRequest request;
  TimePoint answer_by;
  std::shared_ptr<BarrierReply> reply;
};
// The caller cancelled or its connection ended.
struct CallGone {
  core::Token token = 0;
};
struct OperateAsked {
  protocol::OperatorRequest request;
  std::shared_ptr<OperateReply> reply;
};
struct ViewAsked {
  std::shared_ptr<ViewReply> reply;
};
struct StopAsked {
  std::string reason;
};

using Input = std::variant<AgentSaid, AgentEnded, HostAttached, HostSaid, HostEnded, KeyAsked,
                           BarrierAsked, CallGone, OperateAsked, ViewAsked, StopAsked>;

class Inbox {
 public:
  void Post(Input input);
  // Everything posted, waiting for something until `until` (steady time).
  std::vector<Input> TakeAll(std::optional<TimePoint> until);

  // A token for a new call: unique, and above every one in the journal.
  core::Token NextToken() { return next_token_.fetch_add(1, std::memory_order_relaxed); }
  void StartTokensAt(core::Token first) { next_token_ = first; }

 private:
  std::mutex mutex_;
  std::condition_variable filled_;
  std::vector<Input> inputs_;
  std::atomic<core::Token> next_token_{1};
};

}  // namespace muster::server
