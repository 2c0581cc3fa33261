#pragma once

// Buffer<T>: an aligned array that is touched once, when it grows, and reused afterwards.
//
// Memory fresh from the system is many times slower to write than memory already mapped, so a step
// must never allocate: Reserve() in the first step, plain pointers in all others. Contents are zero
// after growth. Move-only. Thread-compatible.

#include <cstddef>
#include <span>
#include <type_traits>
#include <utility>

#include "common/check.h"

namespace muster::models {

// Zeroed memory of at least `bytes` bytes aligned to a huge page where it is that large, else to a
// cache line. Stops the program when there is none: a trainer without its buffers cannot go on.
void* AllocateZeroed(std::size_t bytes);
void FreeZeroed(void* memory) noexcept;

template <typename T>
class Buffer {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  Buffer() = default;
  explicit Buffer(std::size_t count) { Reserve(count); }
  Buffer(Buffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  Buffer& operator=(Buffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~Buffer() { FreeZeroed(data_); }

  // Grows to `count` elements, all zero; does nothing when it is that large already.
  void Reserve(std::size_t count) {
    if (count <= size_) return;
    MUSTER_CHECK(count <= static_cast<std::size_t>(-1) / sizeof(T), "a buffer beyond all memory");
    FreeZeroed(data_);
    data_ = static_cast<T*>(AllocateZeroed(count * sizeof(T)));
    size_ = count;
  }

  T* data() { return data_; }
  const T* data() const { return data_; }
  std::size_t size() const { return size_; }
  std::span<T> span() { return {data_, size_}; }
  std::span<const T> span() const { return {data_, size_}; }

 private:
  T* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace muster::models
