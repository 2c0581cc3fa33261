#pragma once

// The learning rate of a step: linear warm-up, then half a cosine down to a floor. A pure function
// of the step, so a resumed run and a new replica have it without state.

#include <cstdint>

#include "common/status.h"

namespace muster::training {

struct LearningRateSchedule {
  double peak = 3e-4;
  double minimum = 3e-5;  // from total_steps on
  std::uint64_t warmup_steps = 0;
  std::uint64_t total_steps = 1;  // not fewer than warmup_steps

  friend bool operator==(const LearningRateSchedule&, const LearningRateSchedule&) = default;
};

// InvalidArgument naming the field.
Status Validate(const LearningRateSchedule& schedule);

// The rate of update `step`, counted from 0: peak * (step + 1) / warmup_steps while step <
// warmup_steps; then minimum + (peak - minimum) * (1 + cos(pi * progress)) / 2 (Loshchilov and
// Hutter, "SGDR", 2017, equation 5), progress = (step - warmup) / (total - warmup).
double LearningRateAt(const LearningRateSchedule& schedule, std::uint64_t step);

}  // namespace muster::training
