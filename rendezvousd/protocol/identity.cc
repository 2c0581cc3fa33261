#include "rendezvousd/protocol/identity.h"

#include "common/text.h"

namespace muster::protocol {

std::string ToString(const Fence& fence) {
  return Concat("attempt ", fence.attempt, " round ", fence.round);
}

std::string ToString(const AgentKey& key) {
  return Concat(key.node, "/", key.step_id, ".", key.task_id);
}

}  // namespace muster::protocol
