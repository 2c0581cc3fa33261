#pragma once

// The shared half of a RoundWatch. Used by session.cc and round_watch.cc alone.

#include <functional>
#include <mutex>
#include <utility>

#include "trainer_runtime/session/session.h"

namespace muster::session {

struct RoundWatch::State {
  RoundId round;
  std::mutex mutex;  // held while the callback runs: Cancel waits for it
  std::function<void(const Status&)> ended;

  void Call(const Status& reason) {
    const std::lock_guard lock(mutex);
    if (ended) std::exchange(ended, nullptr)(reason);
  }
  bool done() {
    const std::lock_guard lock(mutex);
    return ended == nullptr;
  }
};

}  // namespace muster::session
