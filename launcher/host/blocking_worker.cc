#include "launcher/host/blocking_worker.h"

#include <utility>

namespace muster::host {

BlockingWorker::BlockingWorker(agent::EventLoop* loop) : loop_(loop) {
  thread_ = std::thread([this] { Main(); });
}

BlockingWorker::~BlockingWorker() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
    queue_.clear();
  }
  wake_.notify_one();
  thread_.join();
}

void BlockingWorker::Do(std::function<std::function<void()>()> work) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    queue_.push_back(std::move(work));
  }
  wake_.notify_one();
}

void BlockingWorker::Main() {
  while (true) {
    std::function<std::function<void()>()> work;
    {
      std::unique_lock<std::mutex> lock(mutex_);
      wake_.wait(lock, [this] { return stop_ || !queue_.empty(); });
      if (stop_) return;
      work = std::move(queue_.front());
      queue_.pop_front();
    }
    std::function<void()> after = work();
    if (after) loop_->Post(std::move(after));
  }
}

}  // namespace muster::host
