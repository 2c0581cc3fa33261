#pragma once

// WorkQueue: runs a group's operations in order on one thread, and fails them all after the first
// failure. Used by the groups' implementations.

#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "trainer_runtime/comm/process_group.h"

namespace muster::comm {

class WorkQueue {
 public:
  using Operation = std::function<Status()>;

  // `broken` runs once on the queue's thread, after the failed operation and before its Work ends:
  // the place to close connections.
  explicit WorkQueue(std::function<void()> broken);
  // Fails what is queued, waits for what runs (the owner has made it end) and joins.
  ~WorkQueue();

  Work Push(Operation operation);
  // The first failure, or Break's reason, breaks the queue. Any thread.
  void Break(const Status& reason);
  Status state() const;

 private:
  struct Item {
    Operation operation;
    std::shared_ptr<Work::State> state;
  };
  void Run();

  const std::function<void()> broken_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Item> items_;
  Status state_;
  bool stop_ = false;
  std::jthread thread_;  // last: joined first
};

}  // namespace muster::comm
