#pragma once

// Exponential back-off with jitter. Pure: no clock and no sleep inside, the caller passes the
// random generator and waits by itself.
//
// The k-th delay (k from 0) is drawn from [(1 - jitter) * b, b] with b = initial * multiplier^k, at
// most `maximum`. Jitter keeps thousands of agents that lost the same daemon from coming back in
// step.

#include "common/random.h"
#include "common/time.h"

namespace muster {

struct BackoffPolicy {
  Duration initial = std::chrono::milliseconds(50);
  Duration maximum = std::chrono::seconds(1);
  double multiplier = 2.0;  // at least 1
  double jitter = 0.5;      // 0 (none) to 1 (from nothing to the full delay)
};

class Backoff {
 public:
  explicit Backoff(const BackoffPolicy& policy);

  // The delay before the next try; every call lengthens the one after it.
  Duration Next(Random& random);
  // After a success: start again at `initial`.
  void Reset();

 private:
  BackoffPolicy policy_;
  double bound_;  // of the next delay, in nanoseconds
};

}  // namespace muster
