#include "trainer_runtime/comm/cuda_staging.h"

#include <algorithm>
#include <bit>

#include "common/text.h"

namespace muster::comm {
namespace {

// Small operations share one size, so that the first steps do not allocate again and again.
constexpr std::size_t kBufferBytesMin = std::size_t{1} << 20;
// Above this sizes are rounded up, not doubled: memory of a device is dear.
constexpr std::size_t kDoublingBytesMax = std::size_t{1} << 28;

std::size_t Rounded(std::size_t bytes) {
  if (bytes <= kDoublingBytesMax) return std::max(std::bit_ceil(bytes), kBufferBytesMin);
  return (bytes + kDoublingBytesMax - 1) / kDoublingBytesMax * kDoublingBytesMax;
}

}  // namespace

Result<std::unique_ptr<Staging>> Staging::Create(const cuda::Api& api, int device) {
  std::unique_ptr<Staging> staging(new Staging(api, device));
  MUSTER_RETURN_IF_ERROR(api.Check(api.set_device(device), Concat("use CUDA device ", device)));
  MUSTER_RETURN_IF_ERROR(
      api.Check(api.stream_create_with_flags(&staging->stream_, cuda::kStreamNonBlocking),
                Concat("create a stream on CUDA device ", device)));
  MUSTER_RETURN_IF_ERROR(
      api.Check(api.event_create_with_flags(&staging->event_, cuda::kEventDisableTiming),
                Concat("create an event on CUDA device ", device)));
  return staging;
}

Staging::~Staging() {
  if (abandoned_) return;
  if (memory_ != nullptr) api_.free(memory_);
  if (event_ != nullptr) api_.event_destroy(event_);
  if (stream_ != nullptr) api_.stream_destroy(stream_);
}

Result<std::byte*> Staging::Buffer(std::size_t bytes) {
  if (bytes_ >= bytes) return memory_;
  if (memory_ != nullptr) api_.free(memory_);
  memory_ = nullptr;
  bytes_ = 0;
  const std::size_t rounded = Rounded(bytes);
  void* memory = nullptr;
  MUSTER_RETURN_IF_ERROR(
      api_.Check(api_.allocate(&memory, rounded),
                 Concat("allocate ", rounded, " bytes on CUDA device ", device_)));
  memory_ = static_cast<std::byte*>(memory);
  bytes_ = rounded;
  return memory_;
}

Status Staging::CopyIn(std::byte* device, const void* host, std::size_t bytes) {
  return api_.Check(api_.memcpy_async(device, host, bytes, cuda::CopyKind::kHostToDevice, stream_),
                    Concat("copy ", bytes, " bytes to CUDA device ", device_));
}

Status Staging::CopyOut(void* host, const std::byte* device, std::size_t bytes) {
  return api_.Check(api_.memcpy_async(host, device, bytes, cuda::CopyKind::kDeviceToHost, stream_),
                    Concat("copy ", bytes, " bytes from CUDA device ", device_));
}

Status Staging::Mark() {
  return api_.Check(api_.event_record(event_, stream_),
                    Concat("record an event on CUDA device ", device_));
}

Result<bool> Staging::Finished() {
  const cuda::Code code = api_.event_query(event_);
  if (code == cuda::Code::kNotReady) return false;
  MUSTER_RETURN_IF_ERROR(api_.Check(code, Concat("run an operation on CUDA device ", device_)));
  return true;
}

}  // namespace muster::comm
