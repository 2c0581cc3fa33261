#pragma once

// Barriers of the running round: all ranks of the world meet under a name.
//
// An arrival stands once it is told, also when its caller gives up: the rank was there, and asking
// again waits again. So arrivals are state (in the journal), and callers are not. When the last
// rank arrives all callers are freed and the name can be used anew; when the round ends all fail.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "rendezvousd/core/answers.h"
#include "rendezvousd/core/machine.h"
#include "rendezvousd/core/roster.h"
#include "rendezvousd/protocol/messages.h"

namespace muster::core {

class Barriers {
 public:
  // Where an answer is remembered; null where the agent is gone.
  using MemoryOf = AnswerMemory* (*)(void* context, const protocol::AgentId& agent);

  // `round`: the one that runs, null if none. `newest`: the newest fence.
  void Handle(Token token, const protocol::BarrierRequest& request, const Round* round,
              const protocol::Fence& newest, MemoryOf memory_of, void* context, Effects* out);
  // Names who is missing. False if the token is not parked here.
  bool Expire(Token token, const Round* round, Effects* out);
  void EndRound(const protocol::Fence& ended, Effects* out);
  void ForgetCallers();

  std::size_t size() const { return barriers_.size(); }
  const std::map<Token, std::string>& tokens() const { return tokens_; }
  // Checks its own rules; `world_size` 0: no round runs. For Machine::CheckInvariants.
  void CheckInvariants(std::uint32_t world_size) const;

 private:
  struct Caller {
    Token token = 0;  // 0: its caller is gone, the answer is remembered only
    protocol::RequestId id;
  };
  struct Barrier {
    std::vector<bool> arrived;
    std::uint32_t count = 0;
    std::vector<Caller> callers;
  };

  void Park(Barrier& barrier, const std::string& name, Token token, const protocol::RequestId& id,
            Effects* out);

  std::map<std::string, Barrier> barriers_;
  std::map<Token, std::string> tokens_;  // parked -> name
};

}  // namespace muster::core
