#include "trainer_runtime/train/learning_rate.h"

#include <cmath>

#include "common/text.h"
#include "trainer_runtime/train/scalar_math.h"

namespace muster::training {

Status Validate(const LearningRateSchedule& schedule) {
  if (!std::isfinite(schedule.peak) || schedule.peak <= 0) {
    return InvalidArgument("the peak learning rate must be a positive number");
  }
  if (!(schedule.minimum >= 0 && schedule.minimum <= schedule.peak)) {
    return InvalidArgument("the minimum learning rate must be between 0 and the peak");
  }
  if (schedule.total_steps < 1 || schedule.warmup_steps > schedule.total_steps) {
    return InvalidArgument(Concat("a schedule of ", schedule.total_steps,
                                  " steps cannot warm up for ", schedule.warmup_steps));
  }
  return OkStatus();
}

double LearningRateAt(const LearningRateSchedule& schedule, std::uint64_t step) {
  const std::uint64_t warmup = schedule.warmup_steps;
  if (step < warmup) {
    return schedule.peak * (static_cast<double>(step + 1) / static_cast<double>(warmup));
  }
  if (step >= schedule.total_steps) return schedule.minimum;
  const double progress =
      static_cast<double>(step - warmup) / static_cast<double>(schedule.total_steps - warmup);
  return schedule.minimum + (schedule.peak - schedule.minimum) * (0.5 * (1 + CosinePi(progress)));
}

}  // namespace muster::training
