#pragma once

// Between the protocol's values and protobuf, only here. Reading checks what the wire cannot
// promise (known enumerators, present bodies, text within limits) and answers InvalidArgument
// naming the field; it never aborts on hostile input. Used by server, client and journal.
//
// Writing is total: a text that is not UTF-8 or too long is mended (conversion_fields.h), so that
// what we send is always what we would accept. Keys, values and barrier names are bytes and pass
// as they are.

#include <vector>

#include "common/status.h"
#include "rendezvousd/protocol/messages.h"

namespace muster::v1 {
class Upward;
class Downward;
class KeyRequest;
class KeyAnswer;
class AgentId;
class BarrierAnswer;
class BarrierRequest;
class HostUp;
class Wishes;
class RunView;
class OperatorRequest;
}  // namespace muster::v1

namespace muster::protocol {

void ToProto(const Upward& value, v1::Upward* out);
void ToProto(const Downward& value, v1::Downward* out);
void ToProto(const KeyRequest& value, v1::KeyRequest* out);
void ToProto(const KeyAnswer& value, v1::KeyAnswer* out);
void ToProto(const BarrierRequest& value, v1::BarrierRequest* out);
void ToProto(const HostUp& value, v1::HostUp* out);
void ToProto(const std::vector<Wish>& value, v1::Wishes* out);
void ToProto(const RunView& value, v1::RunView* out);
void ToProto(const OperatorRequest& value, v1::OperatorRequest* out);
void ToProto(const AgentId& value, v1::AgentId* out);
// A barrier's answer is a Status. (Not FromProto: an answer that is not OK is no conversion error.)
void ToProto(const Status& value, v1::BarrierAnswer* out);

Result<Upward> FromProto(const v1::Upward& in);
Result<Downward> FromProto(const v1::Downward& in);
Result<KeyRequest> FromProto(const v1::KeyRequest& in);
Result<KeyAnswer> FromProto(const v1::KeyAnswer& in);
Result<BarrierRequest> FromProto(const v1::BarrierRequest& in);
Result<HostUp> FromProto(const v1::HostUp& in);
Result<std::vector<Wish>> FromProto(const v1::Wishes& in);
Result<RunView> FromProto(const v1::RunView& in);
Result<OperatorRequest> FromProto(const v1::OperatorRequest& in);
Result<AgentId> FromProto(const v1::AgentId& in);
Status BarrierStatus(const v1::BarrierAnswer& in);

}  // namespace muster::protocol
