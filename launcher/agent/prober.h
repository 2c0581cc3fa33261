#pragma once

// Whether a machine's kernel answers at an address: the daemon asks other agents before it calls a
// silent node dead. Connected or refused is alive; a time-out or no route is not. Never blocks.

#include <functional>
#include <string>

#include "launcher/agent/event_loop.h"

namespace muster::agent {

struct ProbeResult {
  bool reachable = false;
  std::string text;
};

// `done` is called once, on the loop (perhaps before this returns).
void ProbeAddress(EventLoop* loop, const std::string& address, std::uint16_t port, Duration timeout,
                  std::function<void(ProbeResult)> done);

}  // namespace muster::agent
