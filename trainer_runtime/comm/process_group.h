#pragma once

// ProcessGroup: collectives among the ranks of one round.
//
// Operations are queued and run one after the other on a thread of the group's own, so that
// reductions proceed while the caller computes. All ranks must queue the same operations with the
// same sizes in the same order. Memory handed over belongs to the operation until its Work has
// ended; Work::Wait returns only then, whatever the outcome, and so does the destructor.
//
// The first failure breaks the group for good: every pending and later operation fails quickly, and
// connections are closed so that the peers notice at once. Abort breaks it from any thread. A group
// is for one round: after a failure destroy it and make another in the next round.
//
// The sum of AllReduce is taken in an order that depends on the sizes alone (summation_order.h):
// all ranks get the same bits, and the same again in every run at the same world size.

#include <condition_variable>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <span>

#include "common/status.h"

namespace muster::comm {

// What became of one operation. Copies share it. A default one has ended well.
class Work {
 public:
  Work() = default;
  // Blocks until the operation has ended. Repeatable.
  Status Wait() const;
  bool done() const;

 private:
  friend class WorkQueue;
  struct State {
    std::mutex mutex;
    std::condition_variable ended;
    bool done = false;
    Status status;
  };
  explicit Work(std::shared_ptr<State> state) : state_(std::move(state)) {}
  static void Finish(State& state, Status status);
  std::shared_ptr<State> state_;
};

class ProcessGroup {
 public:
  virtual ~ProcessGroup() = default;

  int rank() const { return rank_; }
  int size() const { return size_; }

  // Element-wise sum over all ranks, in place.
  virtual Work AllReduce(std::span<float> values) = 0;
  // `bytes` of rank `root` to all.
  virtual Work Broadcast(std::span<std::byte> bytes, int root) = 0;
  // REQUIRES all.size() == own.size() * size(): rank r's part begins at r * own.size().
  virtual Work AllGather(std::span<const std::byte> own, std::span<std::byte> all) = 0;
  virtual Work Barrier() = 0;

  // Any thread, any number of times; the first reason counts.
  virtual void Abort(const Status& reason) = 0;
  // OK, or why the group is broken.
  virtual Status state() const = 0;
  // After the last operation of a group that goes well: waits until no rank needs this one any
  // more. Failures are of no consequence then, so there is no result.
  virtual void Close() = 0;

 protected:
  ProcessGroup(int rank, int size) : rank_(rank), size_(size) {}

 private:
  const int rank_, size_;
};

}  // namespace muster::comm
