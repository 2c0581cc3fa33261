#include "tests/standin/communicator.h"

#include <utility>

extern "C" muster::comm::cuda::Code cudaLaunchHostFunc(muster::comm::cuda::Stream stream,
                                                       void (*function)(void*), void* data);

namespace muster::standin {

// What a stream's thread is given.
struct Communicator::Launched {
  std::shared_ptr<Communicator> communicator;
  Batch batch;
};

Communicator::Communicator(const Settings& settings)
    : settings_(settings), knobs_(KnobsFromEnvironment()) {}

Communicator::~Communicator() {
  if (thread_.joinable()) thread_.detach();  // only if it was leaked: Abort and Destroy join
}

// ------------------------------------------------------------------------------- states

Code Communicator::WaitFormed() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return formed_ != Code::kInProgress; });
  return formed_;
}

Code Communicator::Fail(Code code, const std::string& text) {
  if (!text.empty()) Warn(text);
  const std::lock_guard lock(mutex_);
  if (error_ == Code::kSuccess) error_ = code;
  return code;
}

Code Communicator::AsyncError() {
  std::unique_lock lock(mutex_);
  if (formed_ != Code::kSuccess) return formed_;
  if (error_ != Code::kSuccess) return error_;
  if (revoked_) return running_ ? Code::kInProgress : Code::kSuccess;
  while (!unlaunched_.empty()) {
    LaunchNow(std::move(unlaunched_.front()));
    unlaunched_.pop_front();
  }
  const bool busy = running_ || next_ticket_ != tickets_;
  if (finalized_ && busy) return Code::kInProgress;
  if (busy || finalized_) return Code::kSuccess;
  const Outcome outcome = mesh_->LookAtPeers();
  if (outcome.ok()) return Code::kSuccess;
  lock.unlock();
  return Fail(outcome.code, outcome.text);
}

Code Communicator::Ready(const char* name) {
  const std::lock_guard lock(mutex_);
  if (revoked_) {
    Warn(std::string(name) + ": communicator was revoked");
    return Code::kInvalidUsage;
  }
  if (formed_ == Code::kInProgress || !unlaunched_.empty()) {
    Warn("Attempt to use communicator before the previous operation returned ncclSuccess");
    return Code::kInvalidArgument;
  }
  if (finalized_) return Code::kInvalidUsage;
  return formed_ != Code::kSuccess ? formed_ : error_;
}

// ------------------------------------------------------------------------------- operations

Code Communicator::Launch(comm::cuda::Stream stream, std::vector<Operation> operations) {
  const std::lock_guard lock(mutex_);
  Batch batch{stream, std::move(operations), 0};
  if (settings_.blocking) {
    LaunchNow(std::move(batch));
    return Code::kSuccess;
  }
  unlaunched_.push_back(std::move(batch));
  return Code::kInProgress;
}

void Communicator::LaunchNow(Batch batch) {
  batch.ticket = tickets_++;
  const auto stream = batch.stream;
  auto* const launched = new Launched{shared_from_this(), std::move(batch)};
  const auto run = [](void* data) {
    const std::unique_ptr<Launched> own(static_cast<Launched*>(data));
    own->communicator->Run(own->batch);
  };
  if (cudaLaunchHostFunc(stream, run, launched) != comm::cuda::Code::kSuccess) {
    delete launched;
    --tickets_;
    if (error_ == Code::kSuccess) error_ = Code::kUnhandledCudaError;
    Warn("Cuda failure 400 'invalid resource handle'");
  }
}

void Communicator::Run(const Batch& batch) {
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return next_ticket_ == batch.ticket || ended_ || revoked_; });
    if (ended_ || revoked_) return;
    running_ = true;
  }
  const Outcome outcome = RunOperations(batch);
  if (!outcome.ok() && outcome.code != Code::kInProgress) {
    Fail(outcome.code, outcome.text);
    interrupt_.Wait(-1);
  }
  const std::lock_guard lock(mutex_);
  running_ = false;
  ++next_ticket_;
  changed_.notify_all();
}

// What the knobs want to go wrong now.
Outcome Communicator::Provoke() {
  const auto number = static_cast<std::int64_t>(++operations_);
  if (knobs_.delay_ms > 0) interrupt_.Wait(knobs_.delay_ms);
  if (knobs_.hang.Is(settings_.rank, number)) interrupt_.Wait(-1);
  if (knobs_.remote_error.Is(settings_.rank, number)) {
    return {Code::kRemoteError, "NET/Socket : a remote error that the test asked for"};
  }
  if (interrupt_.is_set()) return {Code::kInProgress, ""};
  return {};
}

Outcome Communicator::RunOperations(const Batch& batch) {
  std::vector<Operation> pairs;
  for (const Operation& operation : batch.operations) {
    if (operation.kind == Kind::kSend || operation.kind == Kind::kReceive) {
      pairs.push_back(operation);
      continue;
    }
    if (Outcome outcome = Provoke(); !outcome.ok()) return outcome;
    Outcome outcome = collectives_->Run(operation, ++collectives_run_, interrupt_);
    if (!outcome.ok()) {
      if (!outcome.text.empty()) {
        outcome.text +=
            std::string(" in ") + NameOf(operation.kind) + " number " + std::to_string(operations_);
      }
      return outcome;
    }
  }
  if (pairs.empty()) return {};
  if (Outcome outcome = Provoke(); !outcome.ok()) return outcome;
  return collectives_->RunPairs(pairs, interrupt_);
}

// ------------------------------------------------------------------------------- ending

void Communicator::WaitQuiet(std::unique_lock<std::mutex>& lock) {
  changed_.wait(lock,
                [&] { return !running_ && (next_ticket_ == tickets_ || revoked_ || ended_); });
}

Code Communicator::Finalize() {
  std::unique_lock lock(mutex_);
  if (finalized_ || revoked_) return Code::kInvalidUsage;
  if (formed_ != Code::kSuccess) return Code::kInvalidArgument;
  finalized_ = true;
  if (!settings_.blocking) return Code::kInProgress;
  WaitQuiet(lock);
  return error_;
}

Code Communicator::Destroy() {
  bool in_peace = false;
  {
    std::unique_lock lock(mutex_);
    if (formed_ == Code::kInProgress) return Code::kInvalidArgument;
    // As NCCL's does: an operation that never ends keeps it for ever.
    WaitQuiet(lock);
    in_peace = formed_ == Code::kSuccess && error_ == Code::kSuccess && !revoked_;
    ended_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
  if (in_peace && mesh_ != nullptr) mesh_->Leave();
  mesh_.reset();
  listener_.reset();
  return Code::kSuccess;
}

Code Communicator::Abort() {
  if (knobs_.abort_hangs) standin::Interrupt().Wait(-1);
  interrupt_.Set();
  {
    std::unique_lock lock(mutex_);
    ended_ = true;
    changed_.notify_all();
    changed_.wait(lock, [&] { return !running_; });
  }
  if (thread_.joinable()) thread_.join();
  if (from_id_) StopRoot(id_);
  mesh_.reset();
  listener_.reset();
  return Code::kSuccess;
}

Code Communicator::Revoke() {
  if (knobs_.revoke_fails) return Code::kInternalError;
  {
    const std::lock_guard lock(mutex_);
    if (revoked_ || finalized_) return Code::kInvalidArgument;
    if (formed_ != Code::kSuccess) return Code::kInvalidArgument;
    revoked_ = true;
    error_ = Code::kSuccess;
    unlaunched_.clear();
    interrupt_.Set();
    changed_.notify_all();
  }
  if (!settings_.blocking) return Code::kInProgress;
  std::unique_lock lock(mutex_);
  WaitQuiet(lock);
  return Code::kSuccess;
}

}  // namespace muster::standin
