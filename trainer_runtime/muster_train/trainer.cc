#include "trainer_runtime/muster_train/trainer.h"

#include <algorithm>
#include <cmath>
#include <thread>

#include "common/log.h"
#include "common/text.h"
#include "trainer_runtime/muster_train/adamw.h"
#include "trainer_runtime/muster_train/reducer.h"
#include "trainer_runtime/muster_train/stop_wish.h"

namespace muster::train_program {
namespace {

// Steps without a finite gradient, one after the other: more than a spike is a broken training.
constexpr std::uint64_t kSkippedMax = 10;
// How soon a waiting rank sees that its group broke.
constexpr Duration kPause = std::chrono::milliseconds(2);

}  // namespace

Result<bool> Trainer::Run(comm::ProcessGroup& group) {
  bool stop = false;
  while (replica_.position().step < options_.steps && !stop) {
    const TimePoint start = SteadyNow();
    MUSTER_RETURN_IF_ERROR(Step(group, &stop));
    MUSTER_RETURN_IF_ERROR(WaitStepTime(group, start));
    const Position& position = replica_.position();
    StepReport report;
    report.step = position.step;
    report.loss = position.last_loss;
    report.time = SteadyNow() - start;
    report.tokens = options_.batch * replica_.model().config().context;
    reporter_.Step(report);
    MUSTER_RETURN_IF_ERROR(
        session_.Progress(session::Phase::kStep, static_cast<std::int64_t>(position.step)));
    SaveIfDue(group);
  }
  return replica_.position().step >= options_.steps;
}

Status Trainer::Step(comm::ProcessGroup& group, bool* stop) {
  double norm = 0;
  MUSTER_ASSIGN_OR_RETURN(Vote own, Gradients(group, &norm));
  const std::uint64_t number = replica_.position().step + 1;
  own.stop = WantsStop(session_, number) ? 1 : 0;
  std::vector<Vote> votes(static_cast<std::size_t>(group.size()));
  MUSTER_RETURN_IF_ERROR(
      group.AllGather(std::as_bytes(std::span(&own, 1)), std::as_writable_bytes(std::span(votes)))
          .Wait());
  double loss = 0;
  bool finite = true;
  for (const Vote& vote : votes) {  // in the order of ranks: the same bits everywhere
    loss += vote.loss_sum;
    finite = finite && vote.finite != 0;
    *stop = *stop || vote.stop != 0;
  }
  loss /= static_cast<double>(options_.batch);
  if (finite) {
    replica_.Apply(options_, norm, loss);
    skipped_in_a_row_ = 0;
    return OkStatus();
  }
  replica_.SkipStep(loss);
  if (++skipped_in_a_row_ < kSkippedMax) {
    if (group.rank() == 0) LogWarning(Concat("step ", number, " is skipped: not finite"));
    return OkStatus();
  }
  return FailedPrecondition(Concat("gradients were not finite in ", kSkippedMax,
                                   " steps up to step ", number, "; lower --learning-rate"));
}

Result<Trainer::Vote> Trainer::Gradients(comm::ProcessGroup& group, double* norm) {
  const auto rank = static_cast<std::uint64_t>(group.rank());
  const auto size = static_cast<std::uint64_t>(group.size());
  const std::uint64_t first = options_.batch * rank / size;
  const std::uint64_t count = options_.batch * (rank + 1) / size - first;
  corpus_.Fill(options_.seed, replica_.position().step, first, count, &tokens_);

  models::Gpt& model = replica_.model();
  models::Batch batch;
  batch.tokens = tokens_;
  batch.sequences = count;
  batch.length = model.config().context;
  MUSTER_ASSIGN_OR_RETURN(const double loss, model.Forward(batch));

  Reducer reducer(group, model.gradients(), options_.bucket_bytes);
  models::BackwardOptions backward;
  backward.scale = static_cast<double>(count) / static_cast<double>(options_.batch);
  const Status status = model.Backward(
      backward, [&](std::size_t begin, std::size_t length) { reducer.Add(begin, length); });
  // Operations in flight use the gradients: wait for their end in any case.
  const Status reduced = reducer.Wait();
  MUSTER_RETURN_IF_ERROR(status);
  MUSTER_RETURN_IF_ERROR(reduced);

  *norm = std::sqrt(SumOfSquares(model.gradients()));
  Vote vote;
  vote.loss_sum = loss * static_cast<double>(count);
  vote.finite = std::isfinite(*norm) && std::isfinite(loss) ? 1 : 0;
  return vote;
}

void Trainer::SaveIfDue(const comm::ProcessGroup& group) {
  const std::uint64_t step = replica_.position().step;
  if (options_.checkpoint_every == 0 || step % options_.checkpoint_every != 0) return;
  if (group.rank() != 0) return;
  checkpointer_.Save(replica_, static_cast<std::uint32_t>(group.size()));
}

Status Trainer::WaitStepTime(const comm::ProcessGroup& group, TimePoint start) const {
  const TimePoint end = start + options_.step_time_min;
  while (SteadyNow() < end && group.state().ok()) {
    std::this_thread::sleep_for(std::min<Duration>(kPause, end - SteadyNow()));
  }
  return OkStatus();
}

}  // namespace muster::train_program
