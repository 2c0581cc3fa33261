#include "trainer_runtime/comm/work_queue.h"

#include <pthread.h>

#include <utility>

namespace muster::comm {

Status Work::Wait() const {
  if (state_ == nullptr) return OkStatus();
  std::unique_lock lock(state_->mutex);
  state_->ended.wait(lock, [&] { return state_->done; });
  return state_->status;
}

bool Work::done() const {
  if (state_ == nullptr) return true;
  const std::lock_guard lock(state_->mutex);
  return state_->done;
}

void Work::Finish(State& state, Status status) {
  {
    const std::lock_guard lock(state.mutex);
    state.status = std::move(status);
    state.done = true;
  }
  state.ended.notify_all();
}

WorkQueue::WorkQueue(std::function<void()> broken) : broken_(std::move(broken)) {
  thread_ = std::jthread([this] { Run(); });
  pthread_setname_np(thread_.native_handle(), "muster-comm");
}

WorkQueue::~WorkQueue() {
  Break(Aborted("the process group was destroyed"));
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
}

Work WorkQueue::Push(Operation operation) {
  auto state = std::make_shared<Work::State>();
  {
    const std::lock_guard lock(mutex_);
    items_.push_back({std::move(operation), state});
  }
  changed_.notify_all();
  return Work(std::move(state));
}

void WorkQueue::Break(const Status& reason) {
  {
    const std::lock_guard lock(mutex_);
    if (state_.ok()) state_ = reason;
  }
  changed_.notify_all();
}

Status WorkQueue::state() const {
  const std::lock_guard lock(mutex_);
  return state_;
}

void WorkQueue::Run() {
  bool told = false;
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return stop_ || !items_.empty() || (!state_.ok() && !told); });
    if (items_.empty() && state_.ok()) return;  // unreachable while the destructor breaks first
    if (!state_.ok() && !told) {
      told = true;
      lock.unlock();
      broken_();
      lock.lock();
    }
    if (items_.empty()) {
      if (stop_) return;
      continue;
    }
    Item item = std::move(items_.front());
    items_.pop_front();
    Status status = state_;
    if (status.ok()) {
      lock.unlock();
      status = item.operation();
      lock.lock();
      // What Abort said explains more than how the operation noticed it.
      if (!status.ok() && state_.ok()) state_ = status;
      if (!status.ok()) status = state_;
      if (!state_.ok() && !told) {
        told = true;
        lock.unlock();
        broken_();
        lock.lock();
      }
    }
    lock.unlock();
    item.operation = nullptr;
    Work::Finish(*item.state, std::move(status));
    lock.lock();
  }
}

}  // namespace muster::comm
