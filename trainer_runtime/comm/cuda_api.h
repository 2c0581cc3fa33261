#pragma once

// The few calls of CUDA's runtime that the NCCL group needs, bound at run time.
//
// Own declarations of its binary interface (CUDA 12 and 13 agree in these), so that CUDA is needed
// neither to build nor to start; tests/unit/nccl compares them with the real headers where those
// are installed. Used by comm/cuda_*, comm/nccl_* and the stand-in of the tests.

#include <cstddef>
#include <string>
#include <vector>

#include "common/status.h"

namespace muster::comm::cuda {

struct StreamState;  // never defined
struct EventState;
using Stream = StreamState*;
using Event = EventState*;

// cudaError_t; only those that are asked about here have names.
enum class Code : unsigned {
  kSuccess = 0,
  kInvalidValue = 1,
  kMemoryAllocation = 2,
  kInsufficientDriver = 35,
  kNoDevice = 100,
  kInvalidDevice = 101,
  kInvalidResourceHandle = 400,
  kNotReady = 600,
};

// cudaMemcpyKind
enum class CopyKind : unsigned {
  kHostToHost = 0,
  kHostToDevice = 1,
  kDeviceToHost = 2,
  kDeviceToDevice = 3,
  kDefault = 4,
};

inline constexpr unsigned kStreamNonBlocking = 1;   // not ordered after the default stream
inline constexpr unsigned kEventDisableTiming = 2;  // cheaper

struct Api {
  std::string path;  // the file it came from

  Code (*get_device_count)(int* count) = nullptr;
  Code (*set_device)(int device) = nullptr;
  Code (*device_get_pci_bus_id)(char* id, int bytes, int device) = nullptr;
  Code (*runtime_get_version)(int* version) = nullptr;
  Code (*driver_get_version)(int* version) = nullptr;
  Code (*allocate)(void** memory, std::size_t bytes) = nullptr;
  Code (*free)(void* memory) = nullptr;
  Code (*memcpy_async)(void* target, const void* source, std::size_t bytes, CopyKind kind,
                       Stream stream) = nullptr;
  Code (*stream_create_with_flags)(Stream* stream, unsigned flags) = nullptr;
  Code (*stream_destroy)(Stream stream) = nullptr;
  Code (*event_create_with_flags)(Event* event, unsigned flags) = nullptr;
  Code (*event_record)(Event event, Stream stream) = nullptr;
  Code (*event_query)(Event event) = nullptr;
  Code (*event_destroy)(Event event) = nullptr;
  Code (*get_last_error)() = nullptr;
  const char* (*get_error_name)(Code code) = nullptr;
  const char* (*get_error_string)(Code code) = nullptr;

  // OK, or "cannot DOING: TEXT (cudaErrorName)".
  Status Check(Code code, const std::string& doing) const;
};

// Loads libcudart once per path. `path`: a file, a folder that holds one, or empty for the loader's
// search, then CUDA's usual folders.
Result<const Api*> Load(const std::string& path = {});

// What Load tries, in order.
std::vector<std::string> LibraryNames(const std::string& path);

}  // namespace muster::comm::cuda
