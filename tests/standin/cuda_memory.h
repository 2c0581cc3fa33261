#pragma once

// Device memory of the stand-in: the process's own, counted against a limit for each device. And
// which host memory is pinned, since copies behave differently there. Thread-safe.

#include <cstddef>

#include "trainer_runtime/comm/cuda_api.h"

namespace muster::standin {

using comm::cuda::Code;

// MUSTER_STANDIN_DEVICES, else 8.
int DeviceCount();
// MUSTER_STANDIN_DEVICE_MEMORY in bytes, else 16 GiB: of one device.
std::size_t DeviceMemory();

Code AllocateDevice(int device, std::size_t bytes, void** memory);
Code FreeDevice(void* memory);
std::size_t AllocatedBytes(int device);

Code AllocatePinned(std::size_t bytes, void** memory);
Code FreePinned(void* memory);

// Whether all of [memory, memory + bytes) lies in one allocation of the kind.
bool IsDevice(const void* memory, std::size_t bytes);
bool IsPinned(const void* memory, std::size_t bytes);

}  // namespace muster::standin
