#pragma once

// NcclCommunicator: one NCCL communicator whose every wait has a deadline and can be given up.
//
// It is created non-blocking, so that forming has an end (NCCL's own bootstrap waits for a missing
// rank for ever), and every operation is watched until the device has done it. Ending never hangs:
// a library that does not come back is left to a thread of its own, and its device memory with it.
//
// One thread uses one object, except for PollError and Rescue, which belong to a watching thread.
// Used by nccl_group.cc.

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>

#include "common/status.h"
#include "common/time.h"
#include "trainer_runtime/comm/cuda_staging.h"
#include "trainer_runtime/comm/nccl_api.h"

namespace muster::comm {

class NcclCommunicator {
 public:
  // `label` begins lines in the log; callers put it before errors. `stop` ends every wait.
  NcclCommunicator(const nccl::Api& nccl, const cuda::Api& cuda, std::string label,
                   std::stop_token stop);
  // Ends it by force if Finish has not ended it.
  ~NcclCommunicator();
  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;

  // Takes the device for the calling thread.
  Status UseDevice(int device);
  // Of rank 0: NCCL then listens in this process until all ranks have joined.
  Result<nccl::UniqueId> NewUniqueId();
  // All ranks call it. `name` appears in NCCL's own logs.
  Status Form(const nccl::UniqueId& id, int rank, int size, const std::string& name,
              TimePoint deadline);

  // Enqueues by `call` on the staging's stream and waits until the device has done it.
  Status Run(const std::string& what, TimePoint deadline,
             const std::function<nccl::Code(nccl::Comm, cuda::Stream)>& call);
  // Ends a communicator that goes well, together with its peers.
  void Finish(Duration timeout);
  // Ends it: revoked where the library can, then destroyed; aborted if that does not do it.
  void EndByForce();

  const nccl::Api& api() const { return nccl_; }
  // The buffer and stream to use. REQUIRES UseDevice.
  Staging& staging() { return *staging_; }

  // From the watching thread: an error that NCCL noticed by itself; OK if there is none or the
  // communicator is busy.
  Status PollError();
  // From the watching thread after `stop`: revokes or aborts if the owner sits inside one call of a
  // library for longer than `patience`.
  void Rescue(Duration patience);

 private:
  class Call;
  Status WaitReady(const std::string& what, TimePoint deadline);
  Status Wait(const std::string& what, TimePoint deadline,
              const std::function<Result<bool>()>& is_over);
  nccl::Code AsyncError();
  Status Describe(const std::string& what, nccl::Code code);
  // Calls on a thread of its own. False if it has not come back in time.
  bool CallInTime(const char* what, std::function<nccl::Code(nccl::Comm)> call, nccl::Code* code);
  // False if the call did not come back; the code says whether the communicator is quiet.
  bool Revoke(nccl::Code* code);
  void Forget(bool is_stuck);

  const nccl::Api& nccl_;
  const cuda::Api& cuda_;
  const std::string label_;
  const std::stop_token stop_;
  std::string name_;  // NCCL keeps a pointer to it
  std::unique_ptr<Staging> staging_;

  std::mutex mutex_;  // held during each call of NCCL, so that none meets another
  std::atomic<nccl::Comm> comm_ = nullptr;
  std::atomic<TimePoint::rep> in_call_since_ = 0;  // 0: in no call
  bool formed_ = false;                            // else there is nothing to revoke
  std::atomic<bool> rescued_ = false;
};

}  // namespace muster::comm
