#pragma once

// The supervisor's one loop: descriptors, timers and posted work, one after another on the thread
// that calls Run. Boost.Asio is inside and shows nowhere else.
//
// Thread-compatible but for Post and Stop, which any thread may call.

#include <cstdint>
#include <functional>
#include <memory>

#include "common/status.h"
#include "common/time.h"

namespace muster::agent {

class EventLoop {
 public:
  using Id = std::uint64_t;  // 0 is never given

  EventLoop();
  ~EventLoop();
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;

  void Post(std::function<void()> work);
  // Calls `work` while the descriptor is readable (or at its end), until Unwatch. The loop holds a
  // copy of it until then: whoever closes a descriptor must Unwatch too.
  Id WatchReadable(int descriptor, std::function<void()> work);
  // Once.
  Id WhenWritable(int descriptor, std::function<void()> work);
  void Unwatch(Id id);
  Id At(TimePoint when, std::function<void()> work);
  Id After(Duration delay, std::function<void()> work);
  void CancelTimer(Id id);

  // Until Stop. An exception out of Asio or a handler comes back as Internal.
  Status Run();
  void Stop();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace muster::agent
