// libcudart.so.13 of the stand-in: CUDA's runtime over the process's own memory (README.md).

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <memory>
#include <utility>

#include "tests/standin/cuda_memory.h"
#include "tests/standin/cuda_stream.h"
#include "trainer_runtime/comm/cuda_api.h"

namespace muster::standin {
namespace {

using comm::cuda::CopyKind;
using comm::cuda::Event;
using comm::cuda::Stream;

constexpr int kVersion = 13000;

thread_local int current_device = 0;
thread_local Code last_error = Code::kSuccess;

Code Say(Code code) {
  if (code != Code::kSuccess && code != Code::kNotReady) last_error = code;
  return code;
}

std::int64_t Now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// A copy whose device side is no device memory reads or writes what it may not.
bool IsSound(void* target, const void* source, std::size_t bytes, CopyKind kind) {
  const bool to = kind == CopyKind::kHostToDevice || kind == CopyKind::kDeviceToDevice;
  const bool from = kind == CopyKind::kDeviceToHost || kind == CopyKind::kDeviceToDevice;
  return (!to || IsDevice(target, bytes)) && (!from || IsDevice(source, bytes));
}

// With host memory that CUDA does not know the call itself waits and copies, as the real one does.
bool CopiesAtOnce(const void* target, const void* source, std::size_t bytes) {
  const auto known = [&](const void* memory) {
    return IsDevice(memory, bytes) || IsPinned(memory, bytes);
  };
  return !known(target) || !known(source);
}

Code CopyOn(Stream handle, void* target, const void* source, std::size_t bytes, CopyKind kind,
            bool waits) {
  const auto stream = FindStream(handle, current_device);
  if (stream == nullptr) return Code::kInvalidResourceHandle;
  if (bytes == 0) return Code::kSuccess;
  if (!IsSound(target, source, bytes, kind)) return Code::kInvalidValue;
  if (waits || CopiesAtOnce(target, source, bytes)) {
    stream->Synchronize();
    std::memmove(target, source, bytes);
  } else {
    stream->Push([=] { std::memmove(target, source, bytes); });
  }
  return Code::kSuccess;
}

struct CodeText {
  Code code;
  const char* name;
  const char* text;
};
constexpr CodeText kTexts[] = {
    {Code::kSuccess, "cudaSuccess", "no error"},
    {Code::kInvalidValue, "cudaErrorInvalidValue", "invalid argument"},
    {Code::kMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory"},
    {Code::kInsufficientDriver, "cudaErrorInsufficientDriver",
     "CUDA driver version is insufficient for CUDA runtime version"},
    {Code::kNoDevice, "cudaErrorNoDevice", "no CUDA-capable device is detected"},
    {Code::kInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal"},
    {Code::kInvalidResourceHandle, "cudaErrorInvalidResourceHandle", "invalid resource handle"},
    {Code::kNotReady, "cudaErrorNotReady", "device not ready"},
};
const CodeText* TextOf(Code code) {
  const auto* const place =
      std::find_if(std::begin(kTexts), std::end(kTexts),
                   [&](const CodeText& candidate) { return candidate.code == code; });
  return place != std::end(kTexts) ? place : nullptr;
}

}  // namespace

extern "C" {

// ------------------------------------------------------------------------------- devices

Code cudaGetDeviceCount(int* count) {
  *count = DeviceCount();
  return Say(*count > 0 ? Code::kSuccess : Code::kNoDevice);
}
Code cudaSetDevice(int device) {
  if (DeviceCount() <= 0) return Say(Code::kNoDevice);
  if (device < 0 || device >= DeviceCount()) return Say(Code::kInvalidDevice);
  current_device = device;
  return Code::kSuccess;
}
Code cudaGetDevice(int* device) {
  if (DeviceCount() <= 0) return Say(Code::kNoDevice);
  *device = current_device;
  return Code::kSuccess;
}
Code cudaDeviceGetPCIBusId(char* id, int bytes, int device) {
  if (device < 0 || device >= DeviceCount()) return Say(Code::kInvalidDevice);
  std::snprintf(id, static_cast<std::size_t>(bytes), "0000:%02x:00.0", 16 + device);
  return Code::kSuccess;
}
// cudaDeviceProp of CUDA 13: 1008 bytes, of which a few are filled (tests/unit/nccl compares).
Code cudaGetDeviceProperties(void* properties, int device) {
  if (device < 0 || device >= DeviceCount()) return Say(Code::kInvalidDevice);
  char* const bytes = static_cast<char*>(properties);
  std::memset(bytes, 0, 1008);
  std::snprintf(bytes, 256, "muster stand-in");
  const auto number = [&](std::size_t offset, int value) {
    std::memcpy(bytes + offset, &value, sizeof(value));
  };
  const std::size_t memory = DeviceMemory();
  std::memcpy(bytes + 288, &memory, sizeof(memory));
  number(256, device + 1);   // the first bytes of the UUID
  number(308, 32);           // warp size
  number(320, 1024);         // threads per block
  number(360, 9);            // compute capability
  number(384, 1);            // multiprocessors
  number(568, 16 + device);  // PCI bus
  return Code::kSuccess;
}
Code cudaRuntimeGetVersion(int* version) {
  *version = kVersion;
  return Code::kSuccess;
}
Code cudaDriverGetVersion(int* version) {
  *version = DeviceCount() > 0 ? kVersion : 0;
  return Code::kSuccess;
}
Code cudaDeviceSynchronize() {
  SynchronizeDevice(current_device);
  return Code::kSuccess;
}

// ------------------------------------------------------------------------------- memory

Code cudaMalloc(void** memory, std::size_t bytes) {
  return Say(AllocateDevice(current_device, bytes, memory));
}
// Waits for the device, as the real one does.
Code cudaFree(void* memory) {
  if (memory != nullptr) SynchronizeDevice(current_device);
  return Say(FreeDevice(memory));
}
Code cudaMallocHost(void** memory, std::size_t bytes) { return Say(AllocatePinned(bytes, memory)); }
Code cudaFreeHost(void* memory) { return Say(FreePinned(memory)); }
Code cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  *total = DeviceMemory();
  *free = *total - std::min(*total, AllocatedBytes(current_device));
  return Code::kSuccess;
}
Code cudaMemcpy(void* target, const void* source, std::size_t bytes, CopyKind kind) {
  return Say(CopyOn(nullptr, target, source, bytes, kind, /*waits=*/true));
}
Code cudaMemcpyAsync(void* target, const void* source, std::size_t bytes, CopyKind kind,
                     Stream stream) {
  return Say(CopyOn(stream, target, source, bytes, kind, /*waits=*/false));
}
Code cudaMemsetAsync(void* memory, int value, std::size_t bytes, Stream handle) {
  const auto stream = FindStream(handle, current_device);
  if (stream == nullptr) return Say(Code::kInvalidResourceHandle);
  if (bytes != 0 && !IsDevice(memory, bytes)) return Say(Code::kInvalidValue);
  stream->Push([=] { std::memset(memory, value, bytes); });
  return Code::kSuccess;
}
Code cudaMemset(void* memory, int value, std::size_t bytes) {
  const Code code = cudaMemsetAsync(memory, value, bytes, nullptr);
  if (code == Code::kSuccess) FindStream(nullptr, current_device)->Synchronize();
  return code;
}

// ------------------------------------------------------------------------------- streams

Code cudaStreamCreateWithFlags(Stream* stream, unsigned) {
  if (DeviceCount() <= 0) return Say(Code::kNoDevice);
  *stream = NewStream(current_device);
  return Code::kSuccess;
}
Code cudaStreamCreate(Stream* stream) { return cudaStreamCreateWithFlags(stream, 0); }
Code cudaStreamDestroy(Stream stream) { return Say(DestroyStream(stream)); }
Code cudaStreamSynchronize(Stream handle) {
  const auto stream = FindStream(handle, current_device);
  if (stream == nullptr) return Say(Code::kInvalidResourceHandle);
  stream->Synchronize();
  return Code::kSuccess;
}
Code cudaStreamQuery(Stream handle) {
  const auto stream = FindStream(handle, current_device);
  if (stream == nullptr) return Say(Code::kInvalidResourceHandle);
  return stream->HasRun(stream->pushed()) ? Code::kSuccess : Code::kNotReady;
}
Code cudaStreamWaitEvent(Stream handle, Event event_handle, unsigned) {
  const auto stream = FindStream(handle, current_device);
  const auto event = FindEvent(event_handle);
  if (stream == nullptr || event == nullptr) return Say(Code::kInvalidResourceHandle);
  const std::lock_guard lock(event->mutex);
  if (event->stream == nullptr || event->stream == stream) return Code::kSuccess;
  stream->Push([other = event->stream, place = event->place] { other->WaitUntilRun(place); });
  return Code::kSuccess;
}
Code cudaLaunchHostFunc(Stream handle, void (*function)(void*), void* data) {
  const auto stream = FindStream(handle, current_device);
  if (stream == nullptr) return Say(Code::kInvalidResourceHandle);
  stream->Push([=] { function(data); });
  return Code::kSuccess;
}

// ------------------------------------------------------------------------------- events

Code cudaEventCreateWithFlags(Event* event, unsigned) {
  if (DeviceCount() <= 0) return Say(Code::kNoDevice);
  *event = NewEvent();
  return Code::kSuccess;
}
Code cudaEventCreate(Event* event) { return cudaEventCreateWithFlags(event, 0); }
Code cudaEventDestroy(Event event) { return Say(DestroyEvent(event)); }
Code cudaEventRecord(Event handle, Stream stream_handle) {
  const auto event = FindEvent(handle);
  const auto stream = FindStream(stream_handle, current_device);
  if (event == nullptr || stream == nullptr) return Say(Code::kInvalidResourceHandle);
  const auto time = std::make_shared<std::atomic<std::int64_t>>(0);
  const std::lock_guard lock(event->mutex);
  stream->Push([time] { *time = Now(); });
  event->stream = stream;
  event->place = stream->pushed();
  event->time = time;
  return Code::kSuccess;
}
Code cudaEventQuery(Event handle) {
  const auto event = FindEvent(handle);
  if (event == nullptr) return Say(Code::kInvalidResourceHandle);
  const std::lock_guard lock(event->mutex);
  const bool reached = event->stream == nullptr || event->stream->HasRun(event->place);
  return reached ? Code::kSuccess : Code::kNotReady;
}
Code cudaEventSynchronize(Event handle) {
  const auto event = FindEvent(handle);
  if (event == nullptr) return Say(Code::kInvalidResourceHandle);
  std::shared_ptr<CudaStream> stream;
  std::uint64_t place = 0;
  {
    const std::lock_guard lock(event->mutex);
    stream = event->stream;
    place = event->place;
  }
  if (stream != nullptr) stream->WaitUntilRun(place);
  return Code::kSuccess;
}
Code cudaEventElapsedTime(float* milliseconds, Event begin_handle, Event end_handle) {
  const auto begin = FindEvent(begin_handle), end = FindEvent(end_handle);
  if (begin == nullptr || end == nullptr) return Say(Code::kInvalidResourceHandle);
  std::int64_t times[2] = {0, 0};
  for (int i = 0; i < 2; ++i) {
    const auto& event = i == 0 ? begin : end;
    const std::lock_guard lock(event->mutex);
    if (event->time == nullptr) return Say(Code::kInvalidResourceHandle);
    times[i] = *event->time;
    if (times[i] == 0) return Code::kNotReady;
  }
  *milliseconds = static_cast<float>(static_cast<double>(times[1] - times[0]) / 1e6);
  return Code::kSuccess;
}

// ------------------------------------------------------------------------------- errors

Code cudaGetLastError() { return std::exchange(last_error, Code::kSuccess); }
Code cudaPeekAtLastError() { return last_error; }
const char* cudaGetErrorName(Code code) {
  const CodeText* const text = TextOf(code);
  return text != nullptr ? text->name : "unrecognized error code";
}
const char* cudaGetErrorString(Code code) {
  const CodeText* const text = TextOf(code);
  return text != nullptr ? text->text : "unrecognized error code";
}

}  // extern "C"
}  // namespace muster::standin
