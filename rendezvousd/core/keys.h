#pragma once

// The keys of a run and of its running round: set once, get, wait, add.
//
// Keys of a round vanish with it, and whoever waits for one is told; keys of the run live for the
// attempt. A value never changes once set, except by adding. Waiting callers are parked under their
// token and are not state: they do not survive a restart of the daemon.

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "rendezvousd/core/answers.h"
#include "rendezvousd/core/machine.h"
#include "rendezvousd/protocol/messages.h"

namespace muster::core {

class Keys {
 public:
  // Answers at once, or parks the token (kWait for a key that is not there). `running`: the fence
  // of the round that runs, if one does; `newest`: of the newest one. `memory`: of the asking
  // agent, may be null.
  void Handle(Token token, const protocol::KeyRequest& request,
              std::optional<protocol::Fence> running, const protocol::Fence& newest,
              AnswerMemory* memory, Effects* out);
  // False if the token is not parked here.
  bool Expire(Token token, Effects* out);
  // The round ended: its keys vanish, its waiters fail.
  void EndRound(const protocol::Fence& ended, Effects* out);
  // The callers are gone.
  void ForgetCallers();

  std::size_t size() const { return values_[0].size() + values_[1].size(); }
  std::size_t value_bytes() const { return value_bytes_; }
  const std::map<Token, std::pair<bool, std::string>>& waiters() const { return waiters_; }

 private:
  using Values = std::map<std::string, std::string>;

  protocol::KeyAnswer Set(const protocol::KeyRequest& request, Effects* out);
  protocol::KeyAnswer Add(const protocol::KeyRequest& request, Effects* out);
  Status Store(bool of_run, const std::string& key, const std::string& value, Effects* out);

  Values values_[2];  // of the round, of the run
  std::size_t value_bytes_ = 0;
  std::map<Token, std::pair<bool, std::string>> waiters_;  // -> of_run, key
  std::map<std::pair<bool, std::string>, std::set<Token>> waited_;
};

}  // namespace muster::core
