#pragma once

// The life of a muster-train process: rounds, one after the other, until the training is done.

#include "trainer_runtime/muster_train/options.h"

namespace muster::train_program {

// The exit code. Errors are said on stderr.
int Run(const Options& options);

}  // namespace muster::train_program
