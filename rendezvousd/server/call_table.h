#pragma once

// Calls that wait for the machine's answer, by token, and when each must be answered. Owned by the
// loop. A token that is open is answered exactly once, whatever happens.

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <variant>
#include <vector>

#include "common/time.h"
#include "rendezvousd/core/machine.h"
#include "rendezvousd/server/peers.h"

namespace muster::server {

class CallTable {
 public:
  ~CallTable();

  void Open(core::Token token, std::shared_ptr<KeyReply> reply, TimePoint answer_by);
  void Open(core::Token token, std::shared_ptr<BarrierReply> reply, TimePoint answer_by);
  bool IsOpen(core::Token token) const { return calls_.contains(token); }
  // Answers and closes; nothing if the token is not open or of the other kind.
  void Answer(core::Token token, const protocol::KeyAnswer& answer);
  void Answer(core::Token token, const Status& status);
  // The same for either kind.
  void Fail(core::Token token, const Status& status);
  void FailAll(const Status& status);
  // Tokens whose time has come; they stay open, and are given once.
  std::vector<core::Token> TakeDue(TimePoint now);
  std::optional<TimePoint> NextDue() const;
  std::size_t size() const { return calls_.size(); }

 private:
  struct Call {
    std::variant<std::shared_ptr<KeyReply>, std::shared_ptr<BarrierReply>> reply;
    TimePoint answer_by;
  };
  void OpenCall(core::Token token, Call call);
  std::optional<Call> Take(core::Token token);

  std::map<core::Token, Call> calls_;
  std::set<std::pair<TimePoint, core::Token>> due_;
};

}  // namespace muster::server
