#include "rendezvousd/core/barriers.h"

#include <algorithm>

#include "common/check.h"
#include "common/text.h"
#include "rendezvousd/core/limits.h"
#include "rendezvousd/core/naming.h"

namespace muster::core {
namespace {

Status CheckRequest(const protocol::BarrierRequest& request, const Round* round,
                    const protocol::Fence& newest) {
  if (request.name.empty()) return InvalidArgument("a barrier's name is empty");
  if (request.name.size() > limits::kKeyBytesMax) {
    return ResourceExhausted(Concat("a barrier's name has ", request.name.size(),
                                    " bytes; the limit is ", limits::kKeyBytesMax));
  }
  if (round == nullptr || request.fence != round->fence) {
    return FailedPrecondition(
        Concat("barrier ", Quote(request.name), " was asked for in ", ToString(request.fence),
               ", but ", round == nullptr ? "no round runs; newest is " : "the round that runs is ",
               ToString(newest)));
  }
  if (request.ranks.empty()) {
    return InvalidArgument(Concat("barrier ", Quote(request.name), ": no rank arrives"));
  }
  for (const std::uint32_t rank : request.ranks) {
    if (rank >= round->world_size) {
      return InvalidArgument(Concat("barrier ", Quote(request.name), ": rank ", rank,
                                    " is outside the world of ", round->world_size));
    }
  }
  return OkStatus();
}

}  // namespace

void Barriers::Handle(Token token, const protocol::BarrierRequest& request, const Round* round,
                      const protocol::Fence& newest, MemoryOf memory_of, void* context,
                      Effects* out) {
  const auto reply = [&](Status status) {
    out->emplace_back(ReplyBarrier{token, std::move(status)});
  };
  if (const AnswerMemory* memory = memory_of(context, request.id.agent)) {
    if (const Answer* known = memory->Find(request.id.number)) return reply(known->status);
  }
  if (Status status = CheckRequest(request, round, newest); !status.ok()) {
    return reply(std::move(status));
  }
  if (!barriers_.contains(request.name) && barriers_.size() >= limits::kBarriersMax) {
    return reply(ResourceExhausted(Concat(limits::kBarriersMax,
                                          " barriers are open; that is the limit, no room for ",
                                          Quote(request.name))));
  }
  if (tokens_.size() >= limits::kWaitersMax) {
    return reply(ResourceExhausted(
        Concat(limits::kWaitersMax, " callers wait at barriers; that is the limit")));
  }
  Barrier& barrier = barriers_[request.name];
  barrier.arrived.resize(round->world_size);
  for (const std::uint32_t rank : request.ranks) {
    if (!barrier.arrived[rank]) ++barrier.count;
    barrier.arrived[rank] = true;
  }
  Park(barrier, request.name, token, request.id, out);
  if (barrier.count < round->world_size) return;
  for (const Caller& caller : barrier.callers) {
    if (AnswerMemory* memory = memory_of(context, caller.id.agent)) {
      memory->Remember(caller.id.number, {});
    }
    if (caller.token == 0) continue;
    tokens_.erase(caller.token);
    out->emplace_back(ReplyBarrier{caller.token, OkStatus()});
  }
  barriers_.erase(request.name);
}

void Barriers::Park(Barrier& barrier, const std::string& name, Token token,
                    const protocol::RequestId& id, Effects* out) {
  tokens_.emplace(token, name);
  if (id.number != 0) {
    for (Caller& caller : barrier.callers) {
      if (caller.id != id) continue;
      // The same request on a new connection: the old caller cannot be there any more.
      if (caller.token != 0) {
        tokens_.erase(caller.token);
        out->emplace_back(ReplyBarrier{caller.token, Aborted("the same request was made again")});
      }
      caller.token = token;
      return;
    }
  }
  barrier.callers.push_back({token, id});
}

bool Barriers::Expire(Token token, const Round* round, Effects* out) {
  const auto parked = tokens_.find(token);
  if (parked == tokens_.end()) return false;
  MUSTER_CHECK(round != nullptr, "a caller waits at a barrier while no round runs");
  Barrier& barrier = barriers_.at(parked->second);
  std::vector<std::string> missing;
  for (std::uint32_t rank = 0; rank < round->world_size && missing.size() < kNamesShown; ++rank) {
    if (!barrier.arrived[rank]) {
      missing.push_back(Concat(rank, " (", round->MemberOfRank(rank).id.key.node, ")"));
    }
  }
  const std::uint32_t absent = round->world_size - barrier.count;
  out->emplace_back(ReplyBarrier{
      token, DeadlineExceeded(Concat("barrier ", Quote(parked->second), " of ",
                                     ToString(round->fence), " waits for rank",
                                     absent == 1 ? " " : "s ", ListNames(missing, absent)))});
  for (Caller& caller : barrier.callers) {
    if (caller.token == token) caller.token = 0;
  }
  tokens_.erase(parked);
  return true;
}

void Barriers::EndRound(const protocol::Fence& ended, Effects* out) {
  const protocol::Fence next{ended.attempt, ended.round + 1};
  for (const auto& [token, name] : tokens_) {
    out->emplace_back(ReplyBarrier{
        token, FailedPrecondition(Concat("waited at barrier ", Quote(name), " in ", ToString(ended),
                                         ", which has ended; next is ", ToString(next)))});
  }
  tokens_.clear();
  barriers_.clear();
}

void Barriers::ForgetCallers() {
  tokens_.clear();
  for (auto& [name, barrier] : barriers_) {
    for (Caller& caller : barrier.callers) caller.token = 0;
  }
}

void Barriers::CheckInvariants(std::uint32_t world_size) const {
  MUSTER_CHECK(world_size > 0 || barriers_.empty(), "a barrier is open while no round runs");
  MUSTER_CHECK(barriers_.size() <= limits::kBarriersMax, "more barriers than the limit");
  std::size_t parked = 0;
  for (const auto& [name, barrier] : barriers_) {
    MUSTER_CHECK(barrier.arrived.size() == world_size, name);
    const auto arrived = std::count(barrier.arrived.begin(), barrier.arrived.end(), true);
    MUSTER_CHECK(static_cast<std::uint32_t>(arrived) == barrier.count, name);
    MUSTER_CHECK(barrier.count < world_size, "a complete barrier frees its callers");
    for (const Caller& caller : barrier.callers) {
      if (caller.token == 0) continue;
      ++parked;
      const auto found = tokens_.find(caller.token);
      MUSTER_CHECK(found != tokens_.end() && found->second == name, "a caller is parked once");
    }
  }
  MUSTER_CHECK(parked == tokens_.size(), "every parked caller stands at one barrier");
}

}  // namespace muster::core
