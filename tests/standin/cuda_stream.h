#pragma once

// Streams and events of the stand-in: a stream is a thread that runs what is queued, in order.
//
// A destroyed stream ends after what is queued, as CUDA's does; nobody waits for it then. Handles
// are looked up in a table, so that one that is gone is an error and no crash. Thread-safe.

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "trainer_runtime/comm/cuda_api.h"

namespace muster::standin {

using comm::cuda::Code;

class CudaStream {
 public:
  explicit CudaStream(int device) : device_(device) {}

  int device() const { return device_; }
  void Push(std::function<void()> task);
  // Number of tasks pushed, and whether the first `count` of them have run.
  std::uint64_t pushed();
  bool HasRun(std::uint64_t count);
  void WaitUntilRun(std::uint64_t count);
  void Synchronize() { WaitUntilRun(pushed()); }

  // Starts the thread; it holds `stream` as long as it runs.
  static void Start(const std::shared_ptr<CudaStream>& stream);
  // No more tasks. Joins the thread if it has nothing to do.
  void Finish();

 private:
  void Run();

  const int device_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;
  std::uint64_t pushed_ = 0, run_ = 0;
  bool finished_ = false;
  std::unique_ptr<std::thread> thread_;
};

// Null for a handle that is not there. The null handle is the device's default stream.
std::shared_ptr<CudaStream> FindStream(comm::cuda::Stream handle, int current_device);
comm::cuda::Stream NewStream(int device);
Code DestroyStream(comm::cuda::Stream handle);
void SynchronizeDevice(int device);

struct CudaEvent {
  std::mutex mutex;
  std::shared_ptr<CudaStream> stream;  // of the newest record; null: never recorded
  std::uint64_t place = 0;
  std::shared_ptr<std::atomic<std::int64_t>> time;  // when it was reached, in nanoseconds
};

std::shared_ptr<CudaEvent> FindEvent(comm::cuda::Event handle);
comm::cuda::Event NewEvent();
Code DestroyEvent(comm::cuda::Event handle);

}  // namespace muster::standin
