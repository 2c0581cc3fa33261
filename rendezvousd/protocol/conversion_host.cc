// What host and people's commands exchange with the daemon.

#include "rendezvousd/protocol/conversion.h"
#include "rendezvousd/protocol/conversion_fields.h"

namespace muster::protocol {
namespace {

using wire::Checker;
using wire::CleanText;

using WireTexts = google::protobuf::RepeatedPtrField<std::string>;

void PutNodes(const std::vector<std::string>& nodes, WireTexts* out) {
  for (const std::string& node : nodes) *out->Add() = CleanText(node, wire::kNameBytesMax);
}

void GetNodes(std::string_view field, const WireTexts& in, Checker* check,
              std::vector<std::string>* out) {
  if (in.size() > wire::kNodesMax) {
    check->Fail(field, "has more entries than a job has nodes");
    return;
  }
  out->resize(static_cast<std::size_t>(in.size()));
  std::size_t index = 0;
  for (const std::string& node : in) check->Node(field, node, &(*out)[index++]);
}

void Put(const HostFacts& value, v1::HostUp* up) {
  v1::HostFacts* out = up->mutable_facts();
  out->set_can_requeue(value.can_requeue);
  PutNodes(value.dead_nodes, out->mutable_dead_nodes());
  PutNodes(value.starting_nodes, out->mutable_starting_nodes());
  out->set_agents_step_ended(CleanText(value.agents_step_ended));
}

Result<HostUp> Get(const v1::HostFacts& in) {
  Checker check("host facts");
  HostFacts out;
  out.can_requeue = in.can_requeue();
  GetNodes("dead_nodes", in.dead_nodes(), &check, &out.dead_nodes);
  GetNodes("starting_nodes", in.starting_nodes(), &check, &out.starting_nodes);
  check.Text("agents_step_ended", in.agents_step_ended(), &out.agents_step_ended);
  MUSTER_RETURN_IF_ERROR(check.status());
  return HostUp(std::move(out));
}

void Put(const WishAnswer& value, v1::HostUp* up) {
  v1::WishAnswer* out = up->mutable_wish_answer();
  out->set_id(value.id);
  out->set_state(static_cast<std::uint32_t>(value.state));
  out->set_reason(CleanText(value.reason));
}

Result<HostUp> Get(const v1::WishAnswer& in) {
  Checker check("wish answer");
  WishAnswer out;
  out.id = in.id();
  check.Enum("state", in.state(), WishState::kRefused, &out.state);
  check.Text("reason", in.reason(), &out.reason);
  MUSTER_RETURN_IF_ERROR(check.status());
  return HostUp(std::move(out));
}

void Put(const OperatorRequest& value, v1::HostUp* up) {
  ToProto(value, up->mutable_operator_request());
}

Result<Wish> Get(const v1::Wish& in) {
  Checker check("wish");
  Wish out;
  out.id = in.id();
  check.Enum("kind", in.kind(), WishKind::kStartAgent, &out.kind);
  GetNodes("nodes", in.nodes(), &check, &out.nodes);
  check.Take(wire::Get(in.verdict(), &out.verdict));
  check.Text("reason", in.reason(), &out.reason);
  MUSTER_RETURN_IF_ERROR(check.status());
  return out;
}

Result<AgentView> Get(const v1::AgentView& in) {
  Checker check("agent view");
  AgentView out;
  check.Node("node", in.node(), &out.key.node);
  out.key.step_id = in.step_id();
  out.key.task_id = in.task_id();
  check.Text("state", in.state(), &out.state);
  out.node_rank = in.node_rank();
  out.workers = in.workers();
  out.last_step = in.last_step();
  MUSTER_RETURN_IF_ERROR(check.status());
  return out;
}

}  // namespace

void ToProto(const HostUp& value, v1::HostUp* out) {
  std::visit([out](const auto& body) { Put(body, out); }, value);
}

Result<HostUp> FromProto(const v1::HostUp& in) {
  switch (in.body_case()) {
    case v1::HostUp::kFacts:
      return Get(in.facts());
    case v1::HostUp::kWishAnswer:
      return Get(in.wish_answer());
    case v1::HostUp::kOperatorRequest: {
      MUSTER_ASSIGN_OR_RETURN(auto request, FromProto(in.operator_request()));
      return HostUp(std::move(request));
    }
    case v1::HostUp::BODY_NOT_SET:
      break;
  }
  return InvalidArgument("the host's message has no body, or one of another version");
}

void ToProto(const OperatorRequest& value, v1::OperatorRequest* out) {
  out->set_action(static_cast<std::uint32_t>(value.action));
  out->set_reason(CleanText(value.reason));
}

Result<OperatorRequest> FromProto(const v1::OperatorRequest& in) {
  Checker check("operator request");
  OperatorRequest out;
  check.Enum("action", in.action(), OperatorAction::kRestart, &out.action);
  check.Text("reason", in.reason(), &out.reason);
  MUSTER_RETURN_IF_ERROR(check.status());
  return out;
}

void ToProto(const std::vector<Wish>& value, v1::Wishes* out) {
  for (const Wish& wish : value) {
    v1::Wish* one = out->add_wishes();
    one->set_id(wish.id);
    one->set_kind(static_cast<std::uint32_t>(wish.kind));
    PutNodes(wish.nodes, one->mutable_nodes());
    wire::Put(wish.verdict, one->mutable_verdict());
    one->set_reason(CleanText(wish.reason));
  }
}

Result<std::vector<Wish>> FromProto(const v1::Wishes& in) {
  std::vector<Wish> out;
  out.reserve(static_cast<std::size_t>(in.wishes_size()));
  for (const v1::Wish& one : in.wishes()) {
    MUSTER_ASSIGN_OR_RETURN(auto wish, Get(one));
    out.push_back(std::move(wish));
  }
  return out;
}

void ToProto(const RunView& value, v1::RunView* out) {
  out->set_run_id(CleanText(value.run_id, wire::kNameBytesMax));
  out->set_phase(CleanText(value.phase, wire::kNameBytesMax));
  wire::Put(value.fence, out->mutable_fence());
  out->set_world_size(value.world_size);
  out->set_waiting_for(CleanText(value.waiting_for));
  for (const AgentView& agent : value.agents) {
    v1::AgentView* one = out->add_agents();
    one->set_node(CleanText(agent.key.node, wire::kNameBytesMax));
    one->set_step_id(agent.key.step_id);
    one->set_task_id(agent.key.task_id);
    one->set_state(CleanText(agent.state));
    one->set_node_rank(agent.node_rank);
    one->set_workers(agent.workers);
    one->set_last_step(agent.last_step);
  }
  wire::Put(value.last_blame, out->mutable_last_blame());
  wire::Put(value.verdict, out->mutable_verdict());
}

Result<RunView> FromProto(const v1::RunView& in) {
  Checker check("run view");
  RunView out;
  check.Name("run_id", in.run_id(), &out.run_id);
  check.Name("phase", in.phase(), &out.phase);
  out.fence = wire::Get(in.fence());
  out.world_size = in.world_size();
  check.Text("waiting_for", in.waiting_for(), &out.waiting_for);
  check.Take(wire::Get(in.last_blame(), &out.last_blame));
  check.Take(wire::Get(in.verdict(), &out.verdict));
  MUSTER_RETURN_IF_ERROR(check.status());
  out.agents.reserve(static_cast<std::size_t>(in.agents_size()));
  for (const v1::AgentView& one : in.agents()) {
    MUSTER_ASSIGN_OR_RETURN(auto agent, Get(one));
    out.agents.push_back(std::move(agent));
  }
  return out;
}

}  // namespace muster::protocol
