#pragma once

// The stand-in's calls by name, and a world of ranks as threads, for its own tests.

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "trainer_runtime/comm/nccl_api.h"

namespace muster::test {

using comm::cuda::Stream;
using comm::nccl::Code;
using comm::nccl::Comm;
using comm::nccl::Config;
using comm::nccl::DataType;
using comm::nccl::Reduction;
using comm::nccl::UniqueId;
using CudaCode = comm::cuda::Code;

template <typename Function>
Function* Symbol(const char* library, const char* name) {
  void* handle = dlopen((std::string(MUSTER_STANDIN) + "/" + library).c_str(), RTLD_NOW);
  void* address = handle != nullptr ? dlsym(handle, name) : nullptr;
  if (address == nullptr) ADD_FAILURE() << library << " has no " << name << ": " << dlerror();
  return reinterpret_cast<Function*>(address);
}
// Calls a function of the stand-in: Call<Code>("ncclCommCount", comm, &count).
template <typename R = Code, typename... A>
R Call(const char* name, A... arguments) {
  const bool is_cuda = std::string(name).starts_with("cuda");
  return Symbol<R(A...)>(is_cuda ? "libcudart.so.13" : "libnccl.so.2", name)(arguments...);
}
template <typename... A>
CudaCode Cuda(const char* name, A... arguments) {
  return Call<CudaCode>(name, arguments...);
}

// Device memory of one type.
template <typename T>
class Device {
 public:
  explicit Device(const std::vector<T>& values) : count_(values.size()) {
    void* memory = nullptr;
    EXPECT_EQ(Cuda("cudaMalloc", &memory, bytes()), CudaCode::kSuccess);
    memory_ = static_cast<T*>(memory);
    Set(values);
  }
  ~Device() { Cuda("cudaFree", static_cast<void*>(memory_)); }
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  T* get() const { return memory_; }
  void Set(const std::vector<T>& values) {
    Cuda("cudaMemcpy", static_cast<void*>(memory_), static_cast<const void*>(values.data()),
         bytes(), comm::cuda::CopyKind::kHostToDevice);
  }
  std::vector<T> Get() const {
    std::vector<T> values(count_);
    Cuda("cudaMemcpy", static_cast<void*>(values.data()), static_cast<const void*>(memory_),
         bytes(), comm::cuda::CopyKind::kDeviceToHost);
    return values;
  }

 private:
  std::size_t bytes() const { return count_ * sizeof(T); }
  std::size_t count_;
  T* memory_ = nullptr;
};

struct Rank {
  int rank = 0, size = 1;
  Comm comm = nullptr;
  Stream stream = nullptr;

  Code Synchronize() const {
    EXPECT_EQ(Cuda("cudaStreamSynchronize", stream), CudaCode::kSuccess);
    Code state = Code::kSuccess;
    EXPECT_EQ(Call("ncclCommGetAsyncError", comm, &state), Code::kSuccess);
    return state;
  }
};

inline Code WaitWhileInProgress(Comm comm) {
  Code state = Code::kInProgress;
  for (int i = 0; i < 5000 && state == Code::kInProgress; ++i) {
    EXPECT_EQ(Call("ncclCommGetAsyncError", comm, &state), Code::kSuccess);
    if (state == Code::kInProgress) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return state;
}

// A rank a thread, each with a communicator that blocks and a stream. The body may end the
// communicator and set it to null.
inline void World(int size, const std::function<void(Rank&)>& body) {
  setenv("NCCL_SOCKET_IFNAME", "lo", 1);
  UniqueId id;
  ASSERT_EQ(Call("ncclGetUniqueId", &id), Code::kSuccess);
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      Rank self{rank, size, nullptr, nullptr};
      EXPECT_EQ(Cuda("cudaSetDevice", rank), CudaCode::kSuccess);
      ASSERT_EQ(Call("ncclCommInitRank", &self.comm, size, id, rank), Code::kSuccess);
      ASSERT_EQ(Cuda("cudaStreamCreate", &self.stream), CudaCode::kSuccess);
      body(self);
      if (self.comm != nullptr) {
        EXPECT_EQ(Call("ncclCommDestroy", self.comm), Code::kSuccess);
      }
      EXPECT_EQ(Cuda("cudaStreamDestroy", self.stream), CudaCode::kSuccess);
    });
  }
}

}  // namespace muster::test
