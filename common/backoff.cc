#include "common/backoff.h"

#include <algorithm>

#include "common/check.h"

namespace muster {

Backoff::Backoff(const BackoffPolicy& policy)
    : policy_(policy), bound_(static_cast<double>(policy.initial.count())) {
  MUSTER_CHECK(policy.initial.count() > 0 && policy.initial <= policy.maximum,
               "back-off needs 0 < initial <= maximum");
  MUSTER_CHECK(policy.multiplier >= 1.0, "back-off must not shrink");
  MUSTER_CHECK(policy.jitter >= 0.0 && policy.jitter <= 1.0, "jitter is a share of the delay");
}

Duration Backoff::Next(Random& random) {
  const double delay = bound_ * (1.0 - policy_.jitter * random.Unit());
  bound_ = std::min(bound_ * policy_.multiplier, static_cast<double>(policy_.maximum.count()));
  return Duration(static_cast<Duration::rep>(delay));
}

void Backoff::Reset() { bound_ = static_cast<double>(policy_.initial.count()); }

}  // namespace muster
