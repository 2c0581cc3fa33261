#pragma once

// Recovery: at the start of a round all ranks come to the same state.
//
// The newest state that any rank holds wins; the lowest rank that has it sends it to all who lack
// it or are behind, and digests prove it. If nobody has one, rank 0 decides for all: the newest
// good checkpoint, else the seed. Collective: all ranks of the group call it together.

#include <string>

#include "common/status.h"
#include "trainer_runtime/comm/process_group.h"
#include "trainer_runtime/muster_train/checkpointer.h"
#include "trainer_runtime/muster_train/replica.h"

namespace muster::train_program {

// Where this rank's state came from, for people: "rank 2", "checkpoint PATH", "seed 1".
struct Origin {
  std::string text;
};

// FailedPrecondition: ranks were started with different options. DataLoss: every checkpoint of this
// run is damaged. Errors of the group are the group's.
Result<Origin> AgreeOnState(comm::ProcessGroup& group, const Options& options,
                            Checkpointer& checkpointer, Replica* replica);

}  // namespace muster::train_program
