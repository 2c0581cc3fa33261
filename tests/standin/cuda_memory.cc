#include "tests/standin/cuda_memory.h"

#include <cstdint>
#include <cstdlib>
#include <map>
#include <mutex>

namespace muster::standin {
namespace {

constexpr int kDevicesDefault = 8;
constexpr std::size_t kDeviceMemoryDefault = std::size_t{16} << 30;
constexpr std::size_t kAlignment = 256;  // as cudaMalloc gives

struct Block {
  std::size_t bytes = 0;
  int device = 0;
};
using Blocks = std::map<std::uintptr_t, Block>;

// Never destroyed: streams may run while the process ends.
struct Memory {
  std::mutex mutex;
  Blocks device, pinned;
};
Memory& TheMemory() {
  static auto* const memory = new Memory;
  return *memory;
}

std::size_t NumberFrom(const char* name, std::size_t fallback) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::strtoull(text, nullptr, 10) : fallback;
}

void* Allocate(std::size_t bytes) {
  return std::aligned_alloc(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment);
}

std::uintptr_t Number(const void* memory) { return reinterpret_cast<std::uintptr_t>(memory); }

bool Holds(const Blocks& blocks, const void* memory, std::size_t bytes) {
  auto next = blocks.upper_bound(Number(memory));
  if (next == blocks.begin()) return false;
  --next;
  return Number(memory) + bytes <= next->first + next->second.bytes;
}

Code Free(Blocks Memory::*blocks, void* memory) {
  if (memory == nullptr) return Code::kSuccess;
  Memory& all = TheMemory();
  const std::lock_guard lock(all.mutex);
  if ((all.*blocks).erase(Number(memory)) == 0) return Code::kInvalidValue;
  std::free(memory);
  return Code::kSuccess;
}

}  // namespace

int DeviceCount() {
  return static_cast<int>(NumberFrom("MUSTER_STANDIN_DEVICES", kDevicesDefault));
}

std::size_t DeviceMemory() {
  return NumberFrom("MUSTER_STANDIN_DEVICE_MEMORY", kDeviceMemoryDefault);
}

std::size_t AllocatedBytes(int device) {
  Memory& all = TheMemory();
  const std::lock_guard lock(all.mutex);
  std::size_t sum = 0;
  for (const auto& [address, block] : all.device) sum += block.device == device ? block.bytes : 0;
  return sum;
}

Code AllocateDevice(int device, std::size_t bytes, void** memory) {
  *memory = nullptr;
  if (bytes == 0) return Code::kSuccess;
  if (bytes > DeviceMemory() || AllocatedBytes(device) > DeviceMemory() - bytes) {
    return Code::kMemoryAllocation;
  }
  void* const block = Allocate(bytes);
  if (block == nullptr) return Code::kMemoryAllocation;
  Memory& all = TheMemory();
  const std::lock_guard lock(all.mutex);
  all.device[Number(block)] = {bytes, device};
  *memory = block;
  return Code::kSuccess;
}

Code FreeDevice(void* memory) { return Free(&Memory::device, memory); }

Code AllocatePinned(std::size_t bytes, void** memory) {
  *memory = nullptr;
  if (bytes == 0) return Code::kSuccess;
  void* const block = Allocate(bytes);
  if (block == nullptr) return Code::kMemoryAllocation;
  Memory& all = TheMemory();
  const std::lock_guard lock(all.mutex);
  all.pinned[Number(block)] = {bytes, 0};
  *memory = block;
  return Code::kSuccess;
}

Code FreePinned(void* memory) { return Free(&Memory::pinned, memory); }

bool IsDevice(const void* memory, std::size_t bytes) {
  Memory& all = TheMemory();
  const std::lock_guard lock(all.mutex);
  return Holds(all.device, memory, bytes);
}

bool IsPinned(const void* memory, std::size_t bytes) {
  Memory& all = TheMemory();
  const std::lock_guard lock(all.mutex);
  return Holds(all.pinned, memory, bytes);
}

}  // namespace muster::standin
