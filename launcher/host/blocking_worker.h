#pragma once

// One thread for calls that block: the scheduler's, the operator's. Work is done in order; what
// comes after it is posted to the loop. The destructor waits for the work under way (every such
// call has a deadline) and drops the rest.

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

#include "launcher/agent/event_loop.h"

namespace muster::host {

class BlockingWorker {
 public:
  explicit BlockingWorker(agent::EventLoop* loop);
  ~BlockingWorker();
  BlockingWorker(const BlockingWorker&) = delete;
  BlockingWorker& operator=(const BlockingWorker&) = delete;

  // `work` runs on the thread and gives what is to run on the loop afterwards.
  void Do(std::function<std::function<void()>()> work);

 private:
  void Main();

  agent::EventLoop* loop_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<std::function<void()>()>> queue_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace muster::host
