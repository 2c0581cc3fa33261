#include "trainer_runtime/session/round_watch.h"

#include "common/text.h"

namespace muster::session {

std::string ToString(RoundId id) { return Concat("attempt ", id.attempt, " round ", id.round); }

RoundWatch& RoundWatch::operator=(RoundWatch&& other) noexcept {
  Cancel();
  state_ = std::move(other.state_);
  return *this;
}

void RoundWatch::Cancel() {
  if (state_ == nullptr) return;
  const std::lock_guard lock(state_->mutex);
  state_->ended = nullptr;
}

}  // namespace muster::session
