// After the first step of the largest batch, a step allocates nothing.

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "tests/unit/models/model_fixtures.h"

namespace {
std::atomic<long> allocations{0};
}  // namespace

[[gnu::noinline]] void* operator new(std::size_t size) {
  ++allocations;
  if (void* memory = std::malloc(size == 0 ? 1 : size)) return memory;
  throw std::bad_alloc();
}
void* operator new[](std::size_t size) { return operator new(size); }
// Not inlined: the compiler would take malloc under new and free under delete for a mismatch.
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { operator delete(memory); }
void operator delete(void* memory, std::size_t) noexcept { operator delete(memory); }
void operator delete[](void* memory, std::size_t) noexcept { operator delete(memory); }

namespace muster::models {
namespace {

TEST(Allocation, OnlyTheFirstStepAllocates) {
  auto model = MakeGpt<float>(*FindGptPreset("tiny"), 1);
  const OwnedBatch large = MakeBatch(4, 64, 256, 2), small = MakeBatch(3, 40, 256, 3);
  std::size_t reported = 0;
  const GradientHook hook = [&](std::size_t, std::size_t count) { reported += count; };
  auto step = [&](const OwnedBatch& batch) {
    EXPECT_TRUE(model->Forward(batch.view()).ok());
    EXPECT_TRUE(model->Backward({}, hook).ok());
  };
  const long at_start = allocations;
  step(large);
  const float* logits = model->logits().data();
  const long after_first = allocations;
  for (int i = 0; i < 3; ++i) {
    step(large);
    step(small);
  }
  EXPECT_EQ(allocations, after_first);
  EXPECT_EQ(model->logits().data(), logits) << "a buffer was allocated again";
  EXPECT_GE(after_first, at_start);
  EXPECT_EQ(reported, 7 * model->gradients().size());
}

}  // namespace
}  // namespace muster::models
