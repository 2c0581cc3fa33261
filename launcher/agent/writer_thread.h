#pragma once

// A thread that writes for somebody who must not wait: a bounded queue in front of one slow place
// (the terminal, the local disk, the shared folder). What does not fit is refused at once, and the
// caller counts it.

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <thread>

#include "common/time.h"

namespace muster::agent {

class WriterThread {
 public:
  explicit WriterThread(std::size_t bytes_max);
  // As Stop(0).
  ~WriterThread();
  WriterThread(const WriterThread&) = delete;
  WriterThread& operator=(const WriterThread&) = delete;

  // False if `bytes` more do not fit into the queue now. Any thread.
  bool Push(std::size_t bytes, std::function<void()> work);
  // Waits for the queue to empty, at most `limit`. A thread that hangs in a write (a dead NFS
  // server) is left behind with what it holds: the process ends soon. True if all was done.
  bool Stop(Duration limit);

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;
  std::thread thread_;
};

}  // namespace muster::agent
