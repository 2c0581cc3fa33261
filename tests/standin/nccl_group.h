#pragma once

// Groups of calls (ncclGroupStart, ncclGroupEnd), of one thread: they take effect together.

#include <memory>

#include "tests/standin/communicator.h"

namespace muster::standin {

// Launches now, or at the end of the group.
Code Enqueue(const std::shared_ptr<Communicator>& communicator, comm::cuda::Stream stream,
             const Operation& operation);
// Waits until it has formed, now or at the end of the group, if it blocks; else kInProgress.
Code AwaitForming(const std::shared_ptr<Communicator>& communicator);

Code StartGroup();
Code EndGroup();

}  // namespace muster::standin
