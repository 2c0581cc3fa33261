#pragma once

// The signals that the host takes through a descriptor. Blocked before any thread exists, so that
// no thread of gRPC is killed by one.
//
// A hangup that the host was started to ignore is not among them: `nohup muster run` lives on when
// the terminal goes. (A blocked signal reaches a descriptor even if it is ignored.)

#include <signal.h>

namespace muster::host {

inline sigset_t HostSignals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2}) {
    sigaddset(&set, number);
  }
  struct sigaction hangup {};
  if (sigaction(SIGHUP, nullptr, &hangup) == 0 && hangup.sa_handler == SIG_IGN) {
    sigdelset(&set, SIGHUP);
  }
  return set;
}

}  // namespace muster::host
