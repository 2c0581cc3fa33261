#include "trainer_runtime/muster_train/trainer.h"

#include <algorithm>
#include <cmath>
#include <thread>
#include <vector>

#include "common/log.h"
#include "common/text.h"
#include "trainer_runtime/muster_train/stop_wish.h"
#include "trainer_runtime/train/gradient_norm.h"
#include "trainer_runtime/train/sampler.h"

namespace muster::train_program {
namespace {

// Steps without a finite gradient, one after the other: more than a spike is a broken training.
constexpr std::uint64_t kSkippedMax = 10;
// The first bucket is smaller, so that reducing begins soon after backward does.
constexpr std::uint64_t kFirstBucketPart = 8;
// How soon a waiting rank sees that its group broke.
constexpr Duration kPause = std::chrono::milliseconds(2);

}  // namespace

Trainer::Trainer(const Options& options, const training::Corpus& corpus, session::Session& session,
                 Reporter& reporter, Checkpointer& checkpointer, Replica& replica,
                 comm::ProcessGroup& group)
    : options_(options),
      session_(session),
      reporter_(reporter),
      checkpointer_(checkpointer),
      replica_(replica),
      group_(group),
      batches_(corpus, replica.progress().cursor.seed),
      reducer_(group, replica.model().gradients(),
               training::MakeBuckets(replica.tensors(), options.bucket_bytes / kFirstBucketPart,
                                     options.bucket_bytes)) {}

Result<bool> Trainer::Run() {
  bool stop = false;
  while (replica_.step() < options_.steps && !stop) {
    const TimePoint start = SteadyNow();
    MUSTER_RETURN_IF_ERROR(Step(&stop));
    WaitStepTime(start);
    StepReport report;
    report.step = replica_.step();
    report.loss = replica_.last_loss();
    report.time = SteadyNow() - start;
    report.tokens = options_.batch * replica_.model().config().context;
    reporter_.Step(report);
    MUSTER_RETURN_IF_ERROR(
        session_.Progress(session::Phase::kStep, static_cast<std::int64_t>(replica_.step())));
    SaveIfDue();
  }
  return replica_.step() >= options_.steps;
}

Status Trainer::Step(bool* stop) {
  double norm = 0;
  MUSTER_ASSIGN_OR_RETURN(Vote own, Gradients(&norm));
  const std::uint64_t number = replica_.step() + 1;
  own.stop = WantsStop(session_, number) ? 1 : 0;
  std::vector<Vote> votes(static_cast<std::size_t>(group_.size()));
  MUSTER_RETURN_IF_ERROR(
      group_.AllGather(std::as_bytes(std::span(&own, 1)), std::as_writable_bytes(std::span(votes)))
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
    replica_.Apply(norm, loss);
    skipped_in_a_row_ = 0;
    return OkStatus();
  }
  replica_.Skip(loss);
  if (++skipped_in_a_row_ < kSkippedMax) {
    if (group_.rank() == 0) LogWarning(Concat("step ", number, " is skipped: not finite"));
    return OkStatus();
  }
  return FailedPrecondition(Concat("gradients were not finite in ", kSkippedMax,
                                   " steps up to step ", number, "; lower --learning-rate"));
}

Result<Trainer::Vote> Trainer::Gradients(double* norm) {
  const training::Slice slice =
      training::RankSlice(options_.batch, static_cast<std::uint64_t>(group_.rank()),
                          static_cast<std::uint64_t>(group_.size()));
  const models::Batch batch = batches_.Build(replica_.progress().cursor.samples_consumed, slice);
  models::Gpt& model = replica_.model();
  MUSTER_ASSIGN_OR_RETURN(const double loss, model.Forward(batch));

  const auto count = static_cast<double>(slice.count);
  models::BackwardOptions backward;
  backward.scale = count / static_cast<double>(options_.batch);
  const Status status = model.Backward(
      backward, [this](std::size_t first, std::size_t length) { reducer_.Add(first, length); });
  // Operations in flight use the gradients: wait for their end in any case.
  const Status reduced = reducer_.Wait();
  MUSTER_RETURN_IF_ERROR(status);
  MUSTER_RETURN_IF_ERROR(reduced);

  *norm = std::sqrt(training::SumOfSquares(model.gradients()));
  Vote vote;
  vote.loss_sum = loss * count;
  vote.finite = std::isfinite(*norm) && std::isfinite(loss) ? 1 : 0;
  return vote;
}

void Trainer::SaveIfDue() {
  const std::uint64_t step = replica_.step();
  if (options_.checkpoint_every == 0 || step % options_.checkpoint_every != 0) return;
  if (group_.rank() == 0) checkpointer_.Save(replica_, static_cast<std::uint32_t>(group_.size()));
}

void Trainer::WaitStepTime(TimePoint start) const {
  const TimePoint end = start + options_.step_time_min;
  while (SteadyNow() < end && group_.state().ok()) {
    std::this_thread::sleep_for(std::min<Duration>(kPause, end - SteadyNow()));
  }
}

}  // namespace muster::train_program
