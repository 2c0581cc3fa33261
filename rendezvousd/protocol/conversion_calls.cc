// The unary calls: keys and barriers.

#include "rendezvousd/protocol/conversion.h"
#include "rendezvousd/protocol/conversion_fields.h"

namespace muster::protocol {

void ToProto(const KeyRequest& value, v1::KeyRequest* out) {
  wire::Put(value.id, out->mutable_id());
  wire::Put(value.fence, out->mutable_fence());
  out->set_of_run(value.of_run);
  out->set_operation(static_cast<std::uint32_t>(value.operation));
  out->set_key(value.key);
  out->set_value(value.value);
  out->set_delta(value.delta);
}

// Sizes of key and value are the core's to refuse: its answer names the limit.
Result<KeyRequest> FromProto(const v1::KeyRequest& in) {
  wire::Checker check("key request");
  KeyRequest out;
  check.Take(wire::Get(in.id(), &out.id));
  out.fence = wire::Get(in.fence());
  out.of_run = in.of_run();
  check.Enum("operation", in.operation(), KeyOperation::kAdd, &out.operation);
  out.key = in.key();
  out.value = in.value();
  out.delta = in.delta();
  MUSTER_RETURN_IF_ERROR(check.status());
  return out;
}

void ToProto(const KeyAnswer& value, v1::KeyAnswer* out) {
  std::uint32_t code = 0;
  wire::PutStatus(value.status, &code, out->mutable_message());
  out->set_code(code);
  out->set_value(value.value);
  out->set_number(value.number);
}

Result<KeyAnswer> FromProto(const v1::KeyAnswer& in) {
  KeyAnswer out;
  out.status = wire::GetStatus(in.code(), in.message());
  out.value = in.value();
  out.number = in.number();
  return out;
}

void ToProto(const BarrierRequest& value, v1::BarrierRequest* out) {
  wire::Put(value.id, out->mutable_id());
  wire::Put(value.fence, out->mutable_fence());
  out->set_name(value.name);
  for (const std::uint32_t rank : value.ranks) out->add_ranks(rank);
}

Result<BarrierRequest> FromProto(const v1::BarrierRequest& in) {
  wire::Checker check("barrier request");
  BarrierRequest out;
  check.Take(wire::Get(in.id(), &out.id));
  out.fence = wire::Get(in.fence());
  out.name = in.name();
  if (in.ranks_size() > wire::kWorkersMax) {
    check.Fail("ranks", "has more entries than one node has tasks");
  } else {
    out.ranks.assign(in.ranks().begin(), in.ranks().end());
  }
  MUSTER_RETURN_IF_ERROR(check.status());
  return out;
}

void ToProto(const Status& value, v1::BarrierAnswer* out) {
  std::uint32_t code = 0;
  wire::PutStatus(value, &code, out->mutable_message());
  out->set_code(code);
}

Status BarrierStatus(const v1::BarrierAnswer& in) {
  return wire::GetStatus(in.code(), in.message());
}

}  // namespace muster::protocol
