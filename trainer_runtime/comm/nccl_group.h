#pragma once

// A ProcessGroup on GPUs, by NCCL. Values stay in host memory and pass through a buffer on the
// device, so that it serves the same callers as the Gloo group.
//
// libnccl and libcudart are loaded at run time: neither is needed to build or to start. All of
// CUDA's and NCCL's calls come from threads of the group's own; the caller's current device is not
// touched. It aborts itself when its round ends or NCCL notices an error, also between operations.
// The bits of a sum are the same on all ranks; that they are the same in every run is not promised
// by NCCL (the tests' stand-in adds in the Gloo group's order).

#include <memory>
#include <stop_token>
#include <string>

#include "common/status.h"
#include "common/time.h"
#include "trainer_runtime/comm/process_group.h"
#include "trainer_runtime/session/session.h"

namespace muster::comm {

struct NcclOptions {
  std::string name = "world";  // tells apart several groups of one round
  // A file or a folder. Empty: the loader's search, then CUDA's usual folders; for CUDA, first of
  // all NCCL's own folder where that is given.
  std::string nccl_library;
  std::string cuda_library;
  // Negative: the local rank's, or the only one there is.
  int device = -1;
  Duration connect_timeout = std::chrono::minutes(2);
  // How long one operation may take. A round's end comes much sooner; this is for programs without
  // an agent, and for an agent that sees nothing wrong.
  Duration operation_timeout = std::chrono::minutes(5);
};

// All ranks of `info`'s round call it. Aborted when the round ends meanwhile or `stop` is
// requested.
Result<std::unique_ptr<ProcessGroup>> CreateNcclGroup(session::Session& session,
                                                      const session::RoundInfo& info,
                                                      const NcclOptions& options,
                                                      const std::stop_token& stop = {});

}  // namespace muster::comm
