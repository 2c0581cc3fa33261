#pragma once

// Staging: one device's stream and buffer, through which host memory passes to collectives.
//
// The buffer is kept and grown rarely. Copies from and to host memory that CUDA does not know are
// synchronous: after CopyIn and CopyOut no one touches the host's memory any more. CopyOut waits
// for what the stream still does, so it comes after Finished says true: nothing can end a wait
// inside it.
//
// One thread uses one object, the one that created it. Used by nccl_communicator.cc.

#include <cstddef>
#include <memory>

#include "common/status.h"
#include "trainer_runtime/comm/cuda_api.h"

namespace muster::comm {

class Staging {
 public:
  static Result<std::unique_ptr<Staging>> Create(const cuda::Api& api, int device);
  ~Staging();
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  // The device's memory, at least `bytes` long. What was in it is lost when it grows.
  Result<std::byte*> Buffer(std::size_t bytes);

  Status CopyIn(std::byte* device, const void* host, std::size_t bytes);
  Status CopyOut(void* host, const std::byte* device, std::size_t bytes);

  // Marks the end of what is on the stream now, and asks whether it was reached.
  Status Mark();
  Result<bool> Finished();

  // The device does not end what it runs: leaves stream and memory as they are, since to free them
  // would wait for it.
  void Abandon() { abandoned_ = true; }

  int device() const { return device_; }
  cuda::Stream stream() const { return stream_; }

 private:
  Staging(const cuda::Api& api, int device) : api_(api), device_(device) {}

  const cuda::Api& api_;
  const int device_;
  bool abandoned_ = false;
  cuda::Stream stream_ = nullptr;
  cuda::Event event_ = nullptr;
  std::byte* memory_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace muster::comm
