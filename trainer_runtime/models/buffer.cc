#include "trainer_runtime/models/buffer.h"

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>

namespace muster::models {

namespace {

constexpr std::size_t kCacheLine = 64;
// x86-64's and most of aarch64's: below it a huge page would be mostly empty.
constexpr std::size_t kHugePage = std::size_t{2} << 20;

}  // namespace

void* AllocateZeroed(std::size_t bytes) {
  const std::size_t alignment = bytes >= kHugePage ? kHugePage : kCacheLine;
  const std::size_t rounded = (bytes + alignment - 1) / alignment * alignment;
  void* memory = std::aligned_alloc(alignment, rounded == 0 ? alignment : rounded);
  MUSTER_CHECK(memory != nullptr, "no memory for a training buffer: use a smaller batch or model");
  // A hint only: without huge pages the buffer is slower to touch, not wrong.
  if (alignment == kHugePage) (void)madvise(memory, rounded, MADV_HUGEPAGE);
  std::memset(memory, 0, rounded == 0 ? alignment : rounded);
  return memory;
}

void FreeZeroed(void* memory) noexcept { std::free(memory); }

}  // namespace muster::models
