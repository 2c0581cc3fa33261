#include "rendezvousd/server/call_table.h"

namespace muster::server {
namespace {

void Send(const std::shared_ptr<KeyReply>& reply, const Status& status) {
  reply->Send(protocol::KeyAnswer{status, {}, 0});
}
void Send(const std::shared_ptr<BarrierReply>& reply, const Status& status) { reply->Send(status); }

}  // namespace

CallTable::~CallTable() { FailAll(Unavailable("the daemon ended")); }

void CallTable::OpenCall(core::Token token, Call call) {
  due_.insert({call.answer_by, token});
  const bool fresh = calls_.emplace(token, std::move(call)).second;
  MUSTER_CHECK(fresh, "an open token is not used again");
}

void CallTable::Open(core::Token token, std::shared_ptr<KeyReply> reply, TimePoint answer_by) {
  OpenCall(token, {std::move(reply), answer_by});
}

void CallTable::Open(core::Token token, std::shared_ptr<BarrierReply> reply, TimePoint answer_by) {
  OpenCall(token, {std::move(reply), answer_by});
}

std::optional<CallTable::Call> CallTable::Take(core::Token token) {
  auto node = calls_.extract(token);
  if (node.empty()) return std::nullopt;
  due_.erase({node.mapped().answer_by, token});
  return std::move(node.mapped());
}

void CallTable::Answer(core::Token token, const protocol::KeyAnswer& answer) {
  const auto call = Take(token);
  if (!call) return;
  const auto* reply = std::get_if<std::shared_ptr<KeyReply>>(&call->reply);
  MUSTER_CHECK(reply != nullptr, "a key's answer goes to a key's caller");
  (*reply)->Send(answer);
}

void CallTable::Answer(core::Token token, const Status& status) {
  const auto call = Take(token);
  if (!call) return;
  const auto* reply = std::get_if<std::shared_ptr<BarrierReply>>(&call->reply);
  MUSTER_CHECK(reply != nullptr, "a barrier's answer goes to a barrier's caller");
  (*reply)->Send(status);
}

void CallTable::Fail(core::Token token, const Status& status) {
  const auto call = Take(token);
  if (!call) return;
  std::visit([&status](const auto& reply) { Send(reply, status); }, call->reply);
}

void CallTable::FailAll(const Status& status) {
  while (!calls_.empty()) Fail(calls_.begin()->first, status);
}

std::vector<core::Token> CallTable::TakeDue(TimePoint now) {
  std::vector<core::Token> out;
  while (!due_.empty() && due_.begin()->first <= now) {
    out.push_back(due_.begin()->second);
    due_.erase(due_.begin());
  }
  return out;
}

std::optional<TimePoint> CallTable::NextDue() const {
  if (due_.empty()) return std::nullopt;
  return due_.begin()->first;
}

}  // namespace muster::server
