#pragma once

// The signals that the host takes through a descriptor. Blocked before any thread exists, so that
// no thread of gRPC is killed by one.

#include <signal.h>

namespace muster::host {

inline sigset_t HostSignals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2}) {
    sigaddset(&set, number);
  }
  return set;
}

}  // namespace muster::host
