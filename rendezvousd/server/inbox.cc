#include "rendezvousd/server/inbox.h"

#include <utility>

namespace muster::server {

void Inbox::Post(Input input) {
  bool first = false;
  {
    const std::lock_guard lock(mutex_);
    first = inputs_.empty();
    inputs_.push_back(std::move(input));
  }
  if (first) filled_.notify_one();
}

std::vector<Input> Inbox::TakeAll(std::optional<TimePoint> until) {
  std::unique_lock lock(mutex_);
  const auto filled = [this] { return !inputs_.empty(); };
  if (until) {
    filled_.wait_until(lock, *until, filled);
  } else {
    filled_.wait(lock, filled);
  }
  return std::exchange(inputs_, {});
}

}  // namespace muster::server
