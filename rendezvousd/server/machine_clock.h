#pragma once

// The machine's time: the kernel's monotonic clock, which a restarted daemon shares with the one
// before it. Where it does not (the machine was booted again, another time namespace), the clock is
// shifted so that it goes on from the journal's last record. Immutable, pure.

#include <string>

#include "common/time.h"

namespace muster::server {

class MachineClock {
 public:
  MachineClock() = default;
  // `last`: the newest time in the journal.
  MachineClock(bool same_boot, TimePoint last, TimePoint steady_now) {
    if (!same_boot || steady_now < last) shift_ = last - steady_now;
  }
  TimePoint ToMachine(TimePoint steady) const { return steady + shift_; }
  TimePoint ToSteady(TimePoint machine) const { return machine - shift_; }
  Duration shift() const { return shift_; }

 private:
  Duration shift_{};
};

// Of the running kernel; "unknown" where /proc does not tell.
std::string BootId();

}  // namespace muster::server
