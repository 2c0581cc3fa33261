// Upward: what an agent says.

#include "proto/local.h"
#include "rendezvousd/protocol/conversion.h"
#include "rendezvousd/protocol/conversion_fields.h"

namespace muster::protocol {
namespace {

using wire::Checker;
using wire::CleanText;

using WireWorkers = google::protobuf::RepeatedPtrField<v1::WorkerStatus>;

void Put(const std::vector<WorkerStatus>& workers, WireWorkers* out) {
  for (const WorkerStatus& worker : workers) {
    v1::WorkerStatus* one = out->Add();
    one->set_local_rank(worker.local_rank);
    wire::Put(worker.fence, one->mutable_fence());
    one->set_pid(worker.pid);
    one->set_alive(worker.alive);
    one->set_can_reform(worker.can_reform);
    one->set_exit_code(worker.exit_code);
    one->set_last_step(worker.last_step);
  }
}

void Get(const WireWorkers& in, Checker* check, std::vector<WorkerStatus>* out) {
  if (in.size() > wire::kWorkersMax) {
    check->Fail("workers", "has more entries than one node has tasks");
    return;
  }
  out->reserve(static_cast<std::size_t>(in.size()));
  for (const v1::WorkerStatus& one : in) {
    out->push_back({one.local_rank(), wire::Get(one.fence()), one.pid(), one.alive(),
                    one.can_reform(), one.exit_code(), one.last_step()});
  }
}

void Put(const Hello& value, v1::Upward* up) {
  v1::Hello* out = up->mutable_hello();
  out->set_version(CleanText(value.version, wire::kNameBytesMax));
  out->set_run_id(CleanText(value.run_id, wire::kNameBytesMax));
  out->set_node_index(value.node_index);
  out->set_agents_on_node(value.agents_on_node);
  out->set_slots(value.slots);
  out->set_address(CleanText(value.address, wire::kNameBytesMax));
  wire::Put(value.fence, out->mutable_fence());
  Put(value.workers, out->mutable_workers());
  out->set_problem(CleanText(value.problem));
  out->set_problem_code(value.problem_code);
}

Result<UpwardBody> Get(const v1::Hello& in) {
  Checker check("hello");
  Hello out;
  check.Name("version", in.version(), &out.version);
  check.Name("run_id", in.run_id(), &out.run_id);
  out.node_index = in.node_index();
  out.agents_on_node = in.agents_on_node();
  out.slots = in.slots();
  check.Name("address", in.address(), &out.address);
  out.fence = wire::Get(in.fence());
  Get(in.workers(), &check, &out.workers);
  check.Text("problem", in.problem(), &out.problem);
  out.problem_code = in.problem_code();
  MUSTER_RETURN_IF_ERROR(check.status());
  return UpwardBody(std::move(out));
}

void Put(const Ready& value, v1::Upward* up) {
  v1::Ready* out = up->mutable_ready();
  wire::Put(value.fence, out->mutable_fence());
  Put(value.workers, out->mutable_workers());
  out->set_master_address(CleanText(value.master_address, wire::kNameBytesMax));
  out->set_master_port(value.master_port);
  out->set_problem(CleanText(value.problem));
}

Result<UpwardBody> Get(const v1::Ready& in) {
  Checker check("ready");
  Ready out;
  out.fence = wire::Get(in.fence());
  Get(in.workers(), &check, &out.workers);
  check.Name("master_address", in.master_address(), &out.master_address);
  check.Port("master_port", in.master_port(), &out.master_port);
  check.Text("problem", in.problem(), &out.problem);
  MUSTER_RETURN_IF_ERROR(check.status());
  return UpwardBody(std::move(out));
}

void Put(const WorkerExited& value, v1::Upward* up) {
  v1::WorkerExited* out = up->mutable_worker_exited();
  wire::Put(value.fence, out->mutable_fence());
  out->set_local_rank(value.local_rank);
  out->set_pid(value.pid);
  out->set_exit_code(value.exit_code);
  out->set_signal(value.signal);
  out->set_cause(static_cast<std::uint32_t>(value.cause));
  out->set_last_line(CleanText(value.last_line));
}

Result<UpwardBody> Get(const v1::WorkerExited& in) {
  Checker check("worker_exited");
  WorkerExited out;
  out.fence = wire::Get(in.fence());
  out.local_rank = in.local_rank();
  out.pid = in.pid();
  out.exit_code = in.exit_code();
  out.signal = in.signal();
  check.Enum("cause", in.cause(), Cause::kGrow, &out.cause);
  check.Text("last_line", in.last_line(), &out.last_line);
  MUSTER_RETURN_IF_ERROR(check.status());
  return UpwardBody(std::move(out));
}

void Put(const WorkerBroken& value, v1::Upward* up) {
  v1::WorkerBroken* out = up->mutable_worker_broken();
  wire::Put(value.fence, out->mutable_fence());
  out->set_local_rank(value.local_rank);
  out->set_reason(CleanText(value.reason));
}

Result<UpwardBody> Get(const v1::WorkerBroken& in) {
  Checker check("worker_broken");
  WorkerBroken out;
  out.fence = wire::Get(in.fence());
  out.local_rank = in.local_rank();
  check.Text("reason", in.reason(), &out.reason);
  MUSTER_RETURN_IF_ERROR(check.status());
  return UpwardBody(std::move(out));
}

void Put(const WorkerProgress& value, v1::Upward* up) {
  v1::WorkerProgress* out = up->mutable_worker_progress();
  wire::Put(value.fence, out->mutable_fence());
  out->set_local_rank(value.local_rank);
  out->set_phase(value.phase);
  out->set_step(value.step);
}

Result<UpwardBody> Get(const v1::WorkerProgress& in) {
  Checker check("worker_progress");
  WorkerProgress out;
  out.fence = wire::Get(in.fence());
  out.local_rank = in.local_rank();
  local::Phase phase{};
  check.Enum("phase", in.phase(), local::Phase::kCheckpoint, &phase);
  out.phase = static_cast<std::uint8_t>(phase);
  out.step = in.step();
  MUSTER_RETURN_IF_ERROR(check.status());
  return UpwardBody(out);
}

void Put(const WorkerRequest& value, v1::Upward* up) {
  v1::WorkerRequest* out = up->mutable_worker_request();
  wire::Put(value.fence, out->mutable_fence());
  out->set_local_rank(value.local_rank);
  out->set_kind(value.kind);
  out->set_reason(CleanText(value.reason));
}

Result<UpwardBody> Get(const v1::WorkerRequest& in) {
  Checker check("worker_request");
  WorkerRequest out;
  out.fence = wire::Get(in.fence());
  out.local_rank = in.local_rank();
  local::RequestKind kind{};
  check.Enum("kind", in.kind(), local::RequestKind::kDone, &kind);
  out.kind = static_cast<std::uint8_t>(kind);
  check.Text("reason", in.reason(), &out.reason);
  MUSTER_RETURN_IF_ERROR(check.status());
  return UpwardBody(std::move(out));
}

void Put(const Goodbye& value, v1::Upward* up) {
  up->mutable_goodbye()->set_reason(CleanText(value.reason));
}

Result<UpwardBody> Get(const v1::Goodbye& in) {
  Checker check("goodbye");
  Goodbye out;
  check.Text("reason", in.reason(), &out.reason);
  MUSTER_RETURN_IF_ERROR(check.status());
  return UpwardBody(std::move(out));
}

void Put(const Beat& value, v1::Upward* up) { up->mutable_beat()->set_sequence(value.sequence); }

void Put(const ProbeAnswer& value, v1::Upward* up) {
  v1::ProbeAnswer* out = up->mutable_probe_answer();
  out->set_probe_id(value.probe_id);
  out->set_reachable(value.reachable);
  out->set_text(CleanText(value.text));
}

Result<UpwardBody> Get(const v1::ProbeAnswer& in) {
  Checker check("probe_answer");
  ProbeAnswer out;
  out.probe_id = in.probe_id();
  out.reachable = in.reachable();
  check.Text("text", in.text(), &out.text);
  MUSTER_RETURN_IF_ERROR(check.status());
  return UpwardBody(std::move(out));
}

Result<UpwardBody> GetBody(const v1::Upward& in) {
  switch (in.body_case()) {
    case v1::Upward::kHello:
      return Get(in.hello());
    case v1::Upward::kReady:
      return Get(in.ready());
    case v1::Upward::kWorkerExited:
      return Get(in.worker_exited());
    case v1::Upward::kWorkerBroken:
      return Get(in.worker_broken());
    case v1::Upward::kWorkerProgress:
      return Get(in.worker_progress());
    case v1::Upward::kWorkerRequest:
      return Get(in.worker_request());
    case v1::Upward::kGoodbye:
      return Get(in.goodbye());
    case v1::Upward::kBeat:
      return UpwardBody(Beat{in.beat().sequence()});
    case v1::Upward::kProbeAnswer:
      return Get(in.probe_answer());
    case v1::Upward::BODY_NOT_SET:
      break;
  }
  return InvalidArgument("an agent's message has no body, or one of another version");
}

}  // namespace

void ToProto(const Upward& value, v1::Upward* out) {
  ToProto(value.agent, out->mutable_agent());
  out->set_number(value.number);
  std::visit([out](const auto& body) { Put(body, out); }, value.body);
}

Result<Upward> FromProto(const v1::Upward& in) {
  Upward out;
  MUSTER_RETURN_IF_ERROR(wire::Get(in.agent(), &out.agent));
  out.number = in.number();
  MUSTER_ASSIGN_OR_RETURN(out.body, GetBody(in));
  return out;
}

}  // namespace muster::protocol
