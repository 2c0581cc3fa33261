#include "rendezvousd/server/event_codec.h"

#include "common/text.h"
#include "muster/v1/journal.pb.h"
#include "rendezvousd/protocol/conversion.h"

namespace muster::server {
namespace {

using protocol::FromProto;
using protocol::ToProto;

void Put(const core::AgentMessage& event, v1::JournalEvent* out) {
  ToProto(event.message, out->mutable_agent_message());
}
void Put(const core::AgentDetached& event, v1::JournalEvent* out) {
  ToProto(event.agent, out->mutable_agent_detached());
}
void Put(const core::AgentSuspect& event, v1::JournalEvent* out) {
  ToProto(event.agent, out->mutable_agent_suspect()->mutable_agent());
  out->mutable_agent_suspect()->set_reason(event.reason);
}
void Put(const core::AgentBack& event, v1::JournalEvent* out) {
  ToProto(event.agent, out->mutable_agent_back());
}
void Put(const core::AgentDead& event, v1::JournalEvent* out) {
  v1::AgentDead* dead = out->mutable_agent_dead();
  ToProto(event.agent, dead->mutable_agent());
  dead->set_cause(static_cast<std::uint32_t>(event.cause));
  dead->set_evidence(event.evidence);
}
void Put(const core::KeyCall& event, v1::JournalEvent* out) {
  out->mutable_key_call()->set_token(event.token);
  ToProto(event.request, out->mutable_key_call()->mutable_request());
}
void Put(const core::BarrierCall& event, v1::JournalEvent* out) {
  out->mutable_barrier_call()->set_token(event.token);
  ToProto(event.request, out->mutable_barrier_call()->mutable_request());
}
void Put(const core::CallExpired&, v1::JournalEvent*) {
  MUSTER_CHECK(false, "an expired call is not journalled");
}
void Put(const core::HostMessage& event, v1::JournalEvent* out) {
  ToProto(event.message, out->mutable_host_message());
}
void Put(const core::DeadlinePassed&, v1::JournalEvent* out) { out->mutable_deadline_passed(); }
void Put(const core::Restarted&, v1::JournalEvent* out) { out->mutable_restarted(); }

Result<core::Event> Get(const v1::AgentSuspect& in) {
  MUSTER_ASSIGN_OR_RETURN(auto agent, FromProto(in.agent()));
  return core::Event(core::AgentSuspect{std::move(agent), in.reason()});
}

Result<core::Event> Get(const v1::AgentDead& in) {
  if (in.cause() > static_cast<std::uint32_t>(protocol::Cause::kGrow)) {
    return InvalidArgument(Concat("agent_dead: cause has the unknown value ", in.cause()));
  }
  MUSTER_ASSIGN_OR_RETURN(auto agent, FromProto(in.agent()));
  return core::Event(
      core::AgentDead{std::move(agent), static_cast<protocol::Cause>(in.cause()), in.evidence()});
}

Result<core::Event> Get(const v1::KeyCall& in) {
  MUSTER_ASSIGN_OR_RETURN(auto request, FromProto(in.request()));
  return core::Event(core::KeyCall{in.token(), std::move(request)});
}

Result<core::Event> Get(const v1::BarrierCall& in) {
  MUSTER_ASSIGN_OR_RETURN(auto request, FromProto(in.request()));
  return core::Event(core::BarrierCall{in.token(), std::move(request)});
}

// A message that is the whole event.
template <typename E, typename Wire>
Result<core::Event> Whole(const Wire& in) {
  MUSTER_ASSIGN_OR_RETURN(auto value, FromProto(in));
  return core::Event(E{std::move(value)});
}

}  // namespace

std::string EncodeEvent(const core::Event& event) {
  v1::JournalEvent wire;
  std::visit([&wire](const auto& one) { Put(one, &wire); }, event);
  return wire.SerializeAsString();
}

Result<core::Event> DecodeEvent(std::string_view bytes) {
  v1::JournalEvent wire;
  if (!wire.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return InvalidArgument("not a journal event");
  }
  switch (wire.body_case()) {
    case v1::JournalEvent::kAgentMessage:
      return Whole<core::AgentMessage>(wire.agent_message());
    case v1::JournalEvent::kAgentDetached:
      return Whole<core::AgentDetached>(wire.agent_detached());
    case v1::JournalEvent::kAgentSuspect:
      return Get(wire.agent_suspect());
    case v1::JournalEvent::kAgentBack:
      return Whole<core::AgentBack>(wire.agent_back());
    case v1::JournalEvent::kAgentDead:
      return Get(wire.agent_dead());
    case v1::JournalEvent::kKeyCall:
      return Get(wire.key_call());
    case v1::JournalEvent::kBarrierCall:
      return Get(wire.barrier_call());
    case v1::JournalEvent::kHostMessage:
      return Whole<core::HostMessage>(wire.host_message());
    case v1::JournalEvent::kDeadlinePassed:
      return core::Event(core::DeadlinePassed{});
    case v1::JournalEvent::kRestarted:
      return core::Event(core::Restarted{});
    case v1::JournalEvent::BODY_NOT_SET:
      break;
  }
  return InvalidArgument("a journal event without body, or of another version");
}

}  // namespace muster::server
