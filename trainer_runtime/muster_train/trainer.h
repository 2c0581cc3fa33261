#pragma once

// Trainer: the steps of one round, data-parallel.
//
// A step: the rank's share of the batch goes forward and backward, gradients are summed in buckets
// meanwhile; then the ranks vote (all finite? does anybody want to stop?); only then weights
// change. So a rank is at step s or s + 1, never between, whenever the round ends.
// Thread-compatible.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/status.h"
#include "trainer_runtime/comm/process_group.h"
#include "trainer_runtime/muster_train/checkpointer.h"
#include "trainer_runtime/muster_train/corpus.h"
#include "trainer_runtime/muster_train/replica.h"
#include "trainer_runtime/muster_train/reporter.h"
#include "trainer_runtime/session/session.h"

namespace muster::train_program {

class Trainer {
 public:
  Trainer(const Options& options, const Corpus& corpus, session::Session& session,
          Reporter& reporter, Checkpointer& checkpointer, Replica& replica)
      : options_(options),
        corpus_(corpus),
        session_(session),
        reporter_(reporter),
        checkpointer_(checkpointer),
        replica_(replica) {}

  // Until all steps are done or a stop is agreed; true: all done. After an error of the group the
  // replica is at a whole step and the next round goes on from there.
  Result<bool> Run(comm::ProcessGroup& group);

 private:
  // What the ranks tell each other before weights change.
  struct Vote {
    double loss_sum = 0;  // over this rank's sequences
    std::uint32_t finite = 0, stop = 0;
  };
  Status Step(comm::ProcessGroup& group, bool* stop);
  Result<Vote> Gradients(comm::ProcessGroup& group, double* norm);
  void SaveIfDue(const comm::ProcessGroup& group);
  Status WaitStepTime(const comm::ProcessGroup& group, TimePoint start) const;

  const Options& options_;
  const Corpus& corpus_;
  session::Session& session_;
  Reporter& reporter_;
  Checkpointer& checkpointer_;
  Replica& replica_;
  std::vector<std::int32_t> tokens_;
  std::uint64_t skipped_in_a_row_ = 0;
};

}  // namespace muster::train_program
