#pragma once

// Trainer: the steps of one round, data-parallel.
//
// A step: the rank's share of the batch goes forward and backward, gradients are summed in buckets
// meanwhile; then the ranks vote (all finite? does anybody want to stop?); only then weights
// change. So a rank is at step s or s + 1, never between, whenever the round ends.
// Thread-compatible.

#include <cstdint>

#include "common/status.h"
#include "trainer_runtime/comm/process_group.h"
#include "trainer_runtime/muster_train/checkpointer.h"
#include "trainer_runtime/muster_train/reducer.h"
#include "trainer_runtime/muster_train/replica.h"
#include "trainer_runtime/muster_train/reporter.h"
#include "trainer_runtime/session/session.h"
#include "trainer_runtime/train/batch_builder.h"
#include "trainer_runtime/train/corpus.h"

namespace muster::train_program {

class Trainer {
 public:
  Trainer(const Options& options, const training::Corpus& corpus, session::Session& session,
          Reporter& reporter, Checkpointer& checkpointer, Replica& replica,
          comm::ProcessGroup& group);

  // For one group. Until all steps are done or a stop is agreed; true: all done. After an error of
  // the group the replica is at a whole step and the next round goes on from there.
  Result<bool> Run();

 private:
  // What the ranks tell each other before weights change.
  struct Vote {
    double loss_sum = 0;  // over this rank's sequences
    std::uint32_t finite = 0, stop = 0;
  };
  Status Step(bool* stop);
  Result<Vote> Gradients(double* norm);
  void SaveIfDue();
  void WaitStepTime(TimePoint start) const;

  const Options& options_;
  session::Session& session_;
  Reporter& reporter_;
  Checkpointer& checkpointer_;
  Replica& replica_;
  comm::ProcessGroup& group_;
  training::BatchBuilder batches_;
  Reducer reducer_;
  std::uint64_t skipped_in_a_row_ = 0;
};

}  // namespace muster::train_program
