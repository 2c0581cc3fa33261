#pragma once

// Starts rendezvousd, and starts it again when it dies: the port is the host's and outlives it, the
// journal brings its state back, agents attend again by themselves. A daemon that dies a third time
// within ten seconds is given up.
//
// On the loop's thread.

#include <deque>
#include <functional>
#include <string>

#include "common/status.h"
#include "common/time.h"
#include "launcher/agent/event_loop.h"
#include "launcher/host/listen_address.h"
#include "launcher/host/spawn.h"
#include "rendezvousd/protocol/start_options.h"

namespace muster::host {

// Beside our own program, or MUSTER_RENDEZVOUSD. NotFound names both.
Result<std::string> FindDaemon(const std::string& from_environment);

class DaemonKeeper {
 public:
  struct Events {
    std::function<void(std::string)> given_up;  // with the reason
    std::function<void()> stopped;              // after Stop, when it is gone
  };
  // `options.listen_fd` is set here from the listener.
  DaemonKeeper(agent::EventLoop* loop, std::string program, std::vector<std::string> environment,
               protocol::StartOptions options, const Listener* listener, Events events);

  Status Start();
  // Its end is no failure from now on: it ends by itself when its verdict was taken.
  void ExpectEnd() { stopping_ = true; }
  // After `patience` TERM, after a while KILL; it is not started again.
  void Stop(Duration patience);
  bool running() const { return child_.running(); }
  int restarts() const { return restarts_; }

 private:
  void OnExit(int wait_status);
  void TellStopped();

  agent::EventLoop* loop_;
  std::string program_;
  std::vector<std::string> environment_;
  protocol::StartOptions options_;
  const Listener* listener_;
  Events events_;
  Child child_;
  std::deque<TimePoint> deaths_;
  int restarts_ = 0;
  bool stopping_ = false;  // its end is expected
  bool stop_asked_ = false;
  bool told_ = false;
  agent::EventLoop::Id timer_ = 0;
};

}  // namespace muster::host
