// Downward: what an agent is told.

#include "rendezvousd/protocol/conversion.h"
#include "rendezvousd/protocol/conversion_fields.h"

namespace muster::protocol {
namespace {

using wire::Checker;
using wire::CleanText;

void Put(const Assignment& value, v1::Assignment* out) {
  out->set_node_rank(value.node_rank);
  out->set_node_count(value.node_count);
  out->set_first_rank(value.first_rank);
  out->set_workers(value.workers);
  out->set_first_local_rank(value.first_local_rank);
  out->set_local_world_size(value.local_world_size);
  out->set_world_size(value.world_size);
  out->set_previous_world_size(value.previous_world_size);
  out->set_restart_count(value.restart_count);
  out->set_tasks_per_node(CleanText(value.tasks_per_node));
}

void Get(const v1::Assignment& in, Checker* check, Assignment* out) {
  out->node_rank = in.node_rank();
  out->node_count = in.node_count();
  out->first_rank = in.first_rank();
  out->workers = in.workers();
  out->first_local_rank = in.first_local_rank();
  out->local_world_size = in.local_world_size();
  out->world_size = in.world_size();
  out->previous_world_size = in.previous_world_size();
  out->restart_count = in.restart_count();
  check->Text("assignment.tasks_per_node", in.tasks_per_node(), &out->tasks_per_node);
}

void Put(const Order& value, v1::Downward* down) {
  v1::Order* out = down->mutable_order();
  out->set_kind(static_cast<std::uint32_t>(value.kind));
  wire::Put(value.fence, out->mutable_fence());
  Put(value.assignment, out->mutable_assignment());
  out->set_master_address(CleanText(value.master_address, wire::kNameBytesMax));
  out->set_master_port(value.master_port);
  out->set_deadline_ns(value.deadline.count());
  wire::Put(value.blame, out->mutable_blame());
  wire::Put(value.verdict, out->mutable_verdict());
}

Result<Downward> Get(const v1::Order& in) {
  Checker check("order");
  Order out;
  check.Enum("kind", in.kind(), OrderKind::kClose, &out.kind);
  out.fence = wire::Get(in.fence());
  Get(in.assignment(), &check, &out.assignment);
  check.Name("master_address", in.master_address(), &out.master_address);
  check.Port("master_port", in.master_port(), &out.master_port);
  out.deadline = Duration(in.deadline_ns());
  check.Take(wire::Get(in.blame(), &out.blame));
  check.Take(wire::Get(in.verdict(), &out.verdict));
  MUSTER_RETURN_IF_ERROR(check.status());
  return Downward(std::move(out));
}

void Put(const BeatAnswer& value, v1::Downward* down) {
  v1::BeatAnswer* out = down->mutable_beat_answer();
  out->set_sequence(value.sequence);
  wire::Put(value.fence, out->mutable_fence());
}

void Put(const Acknowledge& value, v1::Downward* down) {
  down->mutable_acknowledge()->set_number(value.number);
}

void Put(const Probe& value, v1::Downward* down) {
  v1::Probe* out = down->mutable_probe();
  out->set_probe_id(value.probe_id);
  out->set_address(CleanText(value.address, wire::kNameBytesMax));
  out->set_timeout_ns(value.timeout.count());
}

Result<Downward> Get(const v1::Probe& in) {
  Checker check("probe");
  Probe out;
  out.probe_id = in.probe_id();
  check.Name("address", in.address(), &out.address);
  out.timeout = Duration(in.timeout_ns());
  MUSTER_RETURN_IF_ERROR(check.status());
  return Downward(std::move(out));
}

}  // namespace

void ToProto(const Downward& value, v1::Downward* out) {
  std::visit([out](const auto& body) { Put(body, out); }, value);
}

Result<Downward> FromProto(const v1::Downward& in) {
  switch (in.body_case()) {
    case v1::Downward::kOrder:
      return Get(in.order());
    case v1::Downward::kBeatAnswer:
      return Downward(BeatAnswer{in.beat_answer().sequence(), wire::Get(in.beat_answer().fence())});
    case v1::Downward::kAcknowledge:
      return Downward(Acknowledge{in.acknowledge().number()});
    case v1::Downward::kProbe:
      return Get(in.probe());
    case v1::Downward::BODY_NOT_SET:
      break;
  }
  return InvalidArgument("the daemon's message has no body, or one of another version");
}

}  // namespace muster::protocol
