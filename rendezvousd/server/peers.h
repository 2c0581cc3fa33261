#pragma once

// The far ends as the loop sees them. gRPC's reactors implement them (attend_stream, host_stream,
// unary_call); tests use their own. All methods may be called from the loop's thread at any time,
// also after the far end is gone: then they do nothing.

#include <memory>
#include <vector>

#include "common/status.h"
#include "rendezvousd/protocol/messages.h"

namespace muster::server {

class AgentPeer {
 public:
  virtual ~AgentPeer() = default;
  virtual void Send(protocol::Downward message) = 0;
  // What was sent before still goes out; then the stream ends with the status.
  virtual void End(Status reason) = 0;
  // One posted message has been handled: more may be read.
  virtual void Consumed() = 0;
};

class HostPeer {
 public:
  virtual ~HostPeer() = default;
  virtual void Send(std::vector<protocol::Wish> wishes) = 0;
  virtual void End(Status reason) = 0;
  virtual void Consumed() = 0;
};

// Answers a unary call once; later answers do nothing.
template <typename Answer>
class Reply {
 public:
  virtual ~Reply() = default;
  virtual void Send(const Answer& answer) = 0;
};
using KeyReply = Reply<protocol::KeyAnswer>;
using BarrierReply = Reply<Status>;
using OperateReply = Reply<Status>;
using ViewReply = Reply<protocol::RunView>;

}  // namespace muster::server
