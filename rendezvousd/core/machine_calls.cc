// Keys and barriers: who asks, in which round, and where its answers are remembered.

#include "common/text.h"
#include "rendezvousd/core/state.h"

namespace muster::core {
namespace {

// Fenced agents may neither read nor change anything. One that never said hello may ask (its
// answers are just not remembered): the secret let it in, and the fence of the request is checked.
Status CheckAsker(const Membership& members, const protocol::AgentId& id) {
  const Agent* agent = members.Find(id.key);
  if (agent == nullptr || agent->id.incarnation == id.incarnation) return OkStatus();
  return Aborted(
      Concat("agent ", ToString(id.key), " was replaced by a new incarnation: it is fenced"));
}

AnswerMemory* MemoryOf(void* members, const protocol::AgentId& id) {
  Agent* agent = static_cast<Membership*>(members)->FindExact(id);
  return agent == nullptr ? nullptr : &agent->answers;
}

}  // namespace

void Machine::State::On(const KeyCall& event) {
  if (Status status = CheckAsker(members, event.request.id.agent); !status.ok()) {
    effects.emplace_back(
        ReplyKey{event.token, {.status = std::move(status), .value = {}, .number = 0}});
    return;
  }
  const Round* running = Running();
  keys.Handle(event.token, event.request,
              running != nullptr ? std::optional(running->fence) : std::nullopt, Newest(),
              MemoryOf(&members, event.request.id.agent), &effects);
}

void Machine::State::On(const BarrierCall& event) {
  if (Status status = CheckAsker(members, event.request.id.agent); !status.ok()) {
    effects.emplace_back(ReplyBarrier{event.token, std::move(status)});
    return;
  }
  barriers.Handle(event.token, event.request, Running(), Newest(), &MemoryOf, &members, &effects);
}

void Machine::State::On(const CallExpired& event) {
  if (!keys.Expire(event.token, &effects)) barriers.Expire(event.token, Running(), &effects);
}

}  // namespace muster::core
