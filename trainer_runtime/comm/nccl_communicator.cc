#include "trainer_runtime/comm/nccl_communicator.h"

#include <pthread.h>

#include <algorithm>
#include <condition_variable>
#include <thread>
#include <utility>

#include "common/log.h"
#include "common/text.h"

namespace muster::comm {
namespace {

// How long a library may take to destroy or abort a communicator. It frees memory and joins
// threads, for many peers; what is later than this does not come.
constexpr Duration kEndTimeout = std::chrono::seconds(10);
// How long to wait for a revoked communicator to be quiet before it is aborted instead.
constexpr Duration kRevokeTimeout = std::chrono::seconds(3);
// Pauses between looks at a running operation: short at first, for small operations.
constexpr Duration kPauseMin = std::chrono::microseconds(5);
constexpr Duration kPauseMax = std::chrono::milliseconds(1);
constexpr int kLooksWithoutPause = 200;

StatusCode CodeFor(nccl::Code code) {
  switch (code) {
    case nccl::Code::kSuccess:
      return StatusCode::kOk;
    case nccl::Code::kSystemError:
    case nccl::Code::kRemoteError:
      return StatusCode::kUnavailable;
    case nccl::Code::kInvalidArgument:
    case nccl::Code::kInvalidUsage:
      return StatusCode::kFailedPrecondition;
    case nccl::Code::kInProgress:
      return StatusCode::kDeadlineExceeded;
    case nccl::Code::kUnhandledCudaError:
    case nccl::Code::kInternalError:
      return StatusCode::kInternal;
  }
  return StatusCode::kUnknown;
}

}  // namespace

// Says that the owner is inside a call of a library.
class NcclCommunicator::Call {
 public:
  explicit Call(NcclCommunicator& owner) : owner_(owner), lock_(owner.mutex_) {
    owner_.in_call_since_ = SteadyNow().time_since_epoch().count();
  }
  ~Call() { owner_.in_call_since_ = 0; }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

 private:
  NcclCommunicator& owner_;
  const std::lock_guard<std::mutex> lock_;
};

NcclCommunicator::NcclCommunicator(const nccl::Api& nccl, const cuda::Api& cuda, std::string label,
                                   std::stop_token stop)
    : nccl_(nccl), cuda_(cuda), label_(std::move(label)), stop_(std::move(stop)) {}

NcclCommunicator::~NcclCommunicator() { EndByForce(); }

// ------------------------------------------------------------------------------- forming

Status NcclCommunicator::UseDevice(int device) {
  MUSTER_ASSIGN_OR_RETURN(staging_, Staging::Create(cuda_, device));
  return OkStatus();
}

Result<nccl::UniqueId> NcclCommunicator::NewUniqueId() {
  nccl::UniqueId id;
  const nccl::Code code = [&] {
    const Call call(*this);
    return nccl_.get_unique_id(&id);
  }();
  if (code != nccl::Code::kSuccess) return Describe("making the communicator's id", code);
  return id;
}

Status NcclCommunicator::Form(const nccl::UniqueId& id, int rank, int size, const std::string& name,
                              TimePoint deadline) {
  name_ = name;
  nccl::Config config;
  config.blocking = 0;
  config.comm_name = name_.c_str();
  const std::string what = Concat("forming among ", size, " ranks");
  nccl::Comm comm = nullptr;
  nccl::Code code;
  {
    const Call call(*this);
    code = nccl_.comm_init_rank_config(&comm, size, id, rank, &config);
    comm_ = comm;
  }
  if (code != nccl::Code::kSuccess && code != nccl::Code::kInProgress) return Describe(what, code);
  MUSTER_RETURN_IF_ERROR(WaitReady(what, deadline));
  formed_ = true;
  return OkStatus();
}

// ------------------------------------------------------------------------------- waiting

nccl::Code NcclCommunicator::AsyncError() {
  const Call call(*this);
  nccl::Code state = nccl::Code::kSuccess;
  const nccl::Code code = nccl_.comm_get_async_error(comm_, &state);
  return code == nccl::Code::kSuccess ? state : code;
}

Status NcclCommunicator::Describe(const std::string& what, nccl::Code code) {
  const nccl::Comm comm = comm_;
  const char* last = nccl_.get_last_error(comm);
  std::string text =
      Concat(what, " failed: ", nccl_.get_error_string(code), " (", nccl::CodeName(code), ")");
  if (last != nullptr && *last != '\0') text += Concat(": ", Trim(last));
  return Status(CodeFor(code), std::move(text));
}

Status NcclCommunicator::Wait(const std::string& what, TimePoint deadline,
                              const std::function<Result<bool>()>& is_over) {
  Duration pause = kPauseMin;
  const TimePoint begin = SteadyNow();
  for (int look = 0;; ++look) {
    const Result<bool> over = is_over();
    if (!over.ok()) return over.status();
    if (*over) return OkStatus();
    if (stop_.stop_requested()) return Aborted(Concat(what, " was given up"));
    const TimePoint now = SteadyNow();
    if (now >= deadline) {
      return DeadlineExceeded(Concat(what, " has not ended after ", DescribeDuration(now - begin),
                                     ": a rank is missing, stopped or unreachable"));
    }
    if (look < kLooksWithoutPause) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(pause);
      pause = std::min(pause * 2, kPauseMax);
    }
  }
}

Status NcclCommunicator::WaitReady(const std::string& what, TimePoint deadline) {
  return Wait(what, deadline, [&]() -> Result<bool> {
    const nccl::Code code = AsyncError();
    if (code == nccl::Code::kInProgress) return false;
    if (code != nccl::Code::kSuccess) return Describe(what, code);
    return true;
  });
}

Status NcclCommunicator::Run(const std::string& what, TimePoint deadline,
                             const std::function<nccl::Code(nccl::Comm, cuda::Stream)>& call) {
  nccl::Code code;
  {
    const Call in_call(*this);
    code = call(comm_, staging_->stream());
  }
  if (code == nccl::Code::kInProgress) {
    // On the stream only when this is over: a mark set before would be reached too early.
    MUSTER_RETURN_IF_ERROR(WaitReady(what, deadline));
  } else if (code != nccl::Code::kSuccess) {
    return Describe(what, code);
  }
  MUSTER_RETURN_IF_ERROR(staging_->Mark());
  return Wait(what, deadline, [&]() -> Result<bool> {
    // First the device: an operation that has ended is not spoilt by a peer that left after it.
    MUSTER_ASSIGN_OR_RETURN(const bool finished, staging_->Finished());
    const nccl::Code state = finished ? nccl::Code::kSuccess : AsyncError();
    if (state != nccl::Code::kSuccess && state != nccl::Code::kInProgress) {
      return Describe(what, state);
    }
    return finished;
  });
}

// ------------------------------------------------------------------------------- ending

bool NcclCommunicator::CallInTime(const char* what, std::function<nccl::Code(nccl::Comm)> call,
                                  nccl::Code* code) {
  struct Shared {
    std::mutex mutex;
    std::condition_variable changed;
    bool done = false;
    nccl::Code code = nccl::Code::kInternalError;
  };
  const auto shared = std::make_shared<Shared>();
  std::thread thread([shared, call, comm = comm_.load(), set_device = cuda_.set_device,
                      device = staging_->device()] {
    pthread_setname_np(pthread_self(), "muster-nccl-end");
    set_device(device);
    const nccl::Code result = call(comm);
    const std::lock_guard lock(shared->mutex);
    shared->code = result;
    shared->done = true;
    shared->changed.notify_all();
  });
  std::unique_lock lock(shared->mutex);
  if (shared->changed.wait_for(lock, kEndTimeout, [&] { return shared->done; })) {
    *code = shared->code;
    lock.unlock();
    thread.join();
    return true;
  }
  thread.detach();
  LogWarning(Concat(label_, ": NCCL did not end the communicator within ",
                    DescribeDuration(kEndTimeout), " (", what,
                    "). It is left behind with its device memory; restart this process if the "
                    "device runs out of memory"));
  return false;
}

void NcclCommunicator::Forget(bool is_stuck) {
  comm_ = nullptr;
  if (is_stuck && staging_ != nullptr) staging_->Abandon();
  staging_.reset();
}

void NcclCommunicator::Finish(Duration timeout) {
  if (comm_ == nullptr) return;
  const TimePoint deadline = SteadyNow() + timeout;
  nccl::Code code;
  {
    const Call call(*this);
    code = nccl_.comm_finalize(comm_);
  }
  const bool well = code == nccl::Code::kSuccess || code == nccl::Code::kInProgress;
  if (!well || !WaitReady("ending", deadline).ok()) return EndByForce();
  const std::lock_guard lock(mutex_);
  const bool came_back = CallInTime("ncclCommDestroy", nccl_.comm_destroy, &code);
  Forget(!came_back);
}

bool NcclCommunicator::Revoke(nccl::Code* code) {
  *code = nccl::Code::kInProgress;
  if (!rescued_) {
    const std::lock_guard lock(mutex_);
    const auto revoke = [call = nccl_.comm_revoke](nccl::Comm comm) { return call(comm, 0); };
    if (!CallInTime("ncclCommRevoke", revoke, code)) return false;
  }
  const TimePoint deadline = SteadyNow() + kRevokeTimeout;
  while (*code == nccl::Code::kInProgress && SteadyNow() < deadline) {
    *code = AsyncError();
    if (*code == nccl::Code::kInProgress) std::this_thread::sleep_for(kPauseMax);
  }
  return true;
}

void NcclCommunicator::EndByForce() {
  if (comm_ == nullptr) return Forget(false);
  nccl::Code code = nccl::Code::kInternalError;
  bool came_back = true;
  if (nccl_.comm_revoke != nullptr && formed_) came_back = Revoke(&code);
  const std::lock_guard lock(mutex_);
  // One that does not come back may not be disturbed; one that fails keeps the communicator.
  if (came_back && code == nccl::Code::kSuccess) {
    came_back = CallInTime("ncclCommDestroy", nccl_.comm_destroy, &code);
  } else {
    code = nccl::Code::kInternalError;
  }
  if (came_back && code != nccl::Code::kSuccess) {
    came_back = CallInTime("ncclCommAbort", nccl_.comm_abort, &code);
  }
  Forget(!came_back);
}

// ------------------------------------------------------------------------------- the watch

Status NcclCommunicator::PollError() {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock() || comm_ == nullptr) return OkStatus();
  nccl::Code state = nccl::Code::kSuccess;
  const nccl::Code code = nccl_.comm_get_async_error(comm_, &state);
  if (code != nccl::Code::kSuccess) state = code;
  if (state == nccl::Code::kSuccess || state == nccl::Code::kInProgress) return OkStatus();
  return Describe("waiting for work", state);
}

void NcclCommunicator::Rescue(Duration patience) {
  const TimePoint::rep since = in_call_since_;
  const nccl::Comm comm = comm_;
  if (since == 0 || comm == nullptr || rescued_) return;
  if (SteadyNow() - TimePoint(Duration(since)) < patience) return;
  rescued_ = true;
  LogWarning(Concat(label_, ": a call of NCCL does not come back; revoking the communicator"));
  // Without the lock, which the owner holds: this is the one call that may meet another.
  if (nccl_.comm_revoke != nullptr) nccl_.comm_revoke(comm, 0);
}

}  // namespace muster::comm
