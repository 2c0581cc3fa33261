#include "rendezvousd/protocol/conversion_fields.h"

#include <algorithm>

#include "common/text.h"
#include "rendezvousd/protocol/conversion.h"

namespace muster::protocol {
namespace wire {
namespace {

// Length of the UTF-8 sequence at the start of `text`, 0 if there is none. Overlong forms,
// surrogates and values above U+10FFFF are none.
std::size_t SequenceLength(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const auto follows = [&](std::size_t i, unsigned low, unsigned high) {
    return i < text.size() && byte(i) >= low && byte(i) <= high;
  };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first <= 0xDF) return follows(1, 0x80, 0xBF) ? 2 : 0;
  if (first >= 0xE0 && first <= 0xEF) {
    const unsigned low = first == 0xE0 ? 0xA0 : 0x80;
    const unsigned high = first == 0xED ? 0x9F : 0xBF;
    return follows(1, low, high) && follows(2, 0x80, 0xBF) ? 3 : 0;
  }
  if (first >= 0xF0 && first <= 0xF4) {
    const unsigned low = first == 0xF0 ? 0x90 : 0x80;
    const unsigned high = first == 0xF4 ? 0x8F : 0xBF;
    return follows(1, low, high) && follows(2, 0x80, 0xBF) && follows(3, 0x80, 0xBF) ? 4 : 0;
  }
  return 0;
}

bool HasControlByte(std::string_view text) {
  return std::any_of(text.begin(), text.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte < 0x20 || byte == 0x7F;
  });
}

}  // namespace

std::string CleanText(std::string_view text, std::size_t max) {
  constexpr std::string_view kEllipsis = "...";
  std::string out;
  out.reserve(std::min(text.size(), max));
  std::size_t fits = 0;  // the longest prefix that leaves room for the ellipsis
  while (!text.empty()) {
    const std::size_t length = SequenceLength(text);
    const std::string_view piece = length == 0 ? std::string_view("?") : text.substr(0, length);
    if (out.size() + piece.size() > max) {
      out.resize(fits);
      out += kEllipsis;
      break;
    }
    out += piece;
    if (out.size() + kEllipsis.size() <= max) fits = out.size();
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return out;
}

void Checker::Fail(std::string_view field, std::string_view what) {
  if (status_.ok()) status_ = InvalidArgument(Concat(message_, ": ", field, " ", what));
}

void Checker::Text(std::string_view field, const std::string& in, std::string* out) {
  if (in.size() > kTextBytesMax) {
    Fail(field, Concat("has ", in.size(), " bytes, more than ", kTextBytesMax));
  } else {
    *out = in;
  }
}

void Checker::Name(std::string_view field, const std::string& in, std::string* out) {
  if (in.size() > kNameBytesMax) {
    Fail(field, Concat("has ", in.size(), " bytes, more than ", kNameBytesMax));
  } else if (HasControlByte(in)) {
    Fail(field, Concat("has a control byte: ", Quote(in)));
  } else {
    *out = in;
  }
}

void Checker::Node(std::string_view field, const std::string& in, std::string* out) {
  if (in.empty()) Fail(field, "is empty");
  Name(field, in, out);
}

void Checker::Port(std::string_view field, std::uint32_t in, std::uint32_t* out) {
  if (in > 65535) {
    Fail(field, Concat("is ", in, ", not a port"));
  } else {
    *out = in;
  }
}

void Put(const Fence& value, v1::Fence* out) {
  out->set_attempt(value.attempt);
  out->set_round(value.round);
}

Fence Get(const v1::Fence& in) { return {in.attempt(), in.round()}; }

Status Get(const v1::AgentId& in, AgentId* out) {
  Checker check("agent");
  check.Node("node", in.node(), &out->key.node);
  out->key.step_id = in.step_id();
  out->key.task_id = in.task_id();
  out->incarnation = in.incarnation();
  if (out->incarnation == 0) check.Fail("incarnation", "is missing");
  return check.status();
}

void Put(const RequestId& value, v1::RequestId* out) {
  ToProto(value.agent, out->mutable_agent());
  out->set_number(value.number);
}

Status Get(const v1::RequestId& in, RequestId* out) {
  out->number = in.number();
  return Get(in.agent(), &out->agent);
}

void Put(const Blame& value, v1::Blame* out) {
  out->set_cause(static_cast<std::uint32_t>(value.cause));
  out->set_node(CleanText(value.node, kNameBytesMax));
  out->set_rank(value.rank);
  out->set_exit_code(value.exit_code);
  out->set_text(CleanText(value.text));
}

Status Get(const v1::Blame& in, Blame* out) {
  Checker check("blame");
  check.Enum("cause", in.cause(), Cause::kGrow, &out->cause);
  check.Name("node", in.node(), &out->node);
  out->rank = in.rank();
  out->exit_code = in.exit_code();
  check.Text("text", in.text(), &out->text);
  return check.status();
}

void Put(const Verdict& value, v1::Verdict* out) {
  out->set_outcome(static_cast<std::uint32_t>(value.outcome));
  out->set_exit_code(value.exit_code);
  Put(value.blame, out->mutable_blame());
}

Status Get(const v1::Verdict& in, Verdict* out) {
  Checker check("verdict");
  check.Enum("outcome", in.outcome(), Outcome::kStopped, &out->outcome);
  out->exit_code = in.exit_code();
  check.Take(Get(in.blame(), &out->blame));
  return check.status();
}

void PutStatus(const Status& value, std::uint32_t* code, std::string* message) {
  *code = static_cast<std::uint32_t>(value.code());
  *message = CleanText(value.message());
}

Status GetStatus(std::uint32_t code, const std::string& message) {
  if (code > static_cast<std::uint32_t>(StatusCode::kUnauthenticated)) {
    return {StatusCode::kUnknown, Concat("code ", code, ": ", message)};
  }
  if (code == 0) return OkStatus();
  return {static_cast<StatusCode>(code), message};
}

}  // namespace wire

void ToProto(const AgentId& value, v1::AgentId* out) {
  out->set_node(wire::CleanText(value.key.node, wire::kNameBytesMax));
  out->set_step_id(value.key.step_id);
  out->set_task_id(value.key.task_id);
  out->set_incarnation(value.incarnation);
}

Result<AgentId> FromProto(const v1::AgentId& in) {
  AgentId out;
  MUSTER_RETURN_IF_ERROR(wire::Get(in, &out));
  return out;
}

}  // namespace muster::protocol
