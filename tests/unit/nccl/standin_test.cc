// The stand-in does what NCCL and CUDA's runtime do: operations, types, groups, children, copies.

#include <cmath>
#include <cstring>

#include "tests/unit/nccl/standin.h"

namespace muster::test {
namespace {

using std::chrono::milliseconds;

template <typename T>
void ExpectReduced(DataType type, Reduction reduction, T (*value)(int), T expected) {
  World(3, [&](Rank& self) {
    const Device<T> source(std::vector<T>(1000, value(self.rank)));
    const Device<T> target(std::vector<T>(1000));
    ASSERT_EQ(Call("ncclAllReduce", static_cast<const void*>(source.get()),
                   static_cast<void*>(target.get()), std::size_t{1000}, type, reduction, self.comm,
                   self.stream),
              Code::kSuccess);
    ASSERT_EQ(self.Synchronize(), Code::kSuccess);
    EXPECT_EQ(target.Get(), std::vector<T>(1000, expected));
    EXPECT_EQ(source.Get(), std::vector<T>(1000, value(self.rank)));
  });
}

TEST(StandIn, ReducesAllTypes) {
  ExpectReduced<std::int8_t>(
      DataType::kInt8, Reduction::kSum, [](int r) { return std::int8_t(100 + r); }, 47);
  ExpectReduced<std::uint8_t>(
      DataType::kUint8, Reduction::kMax, [](int r) { return std::uint8_t(r + 250); }, 252);
  ExpectReduced<std::int32_t>(
      DataType::kInt32, Reduction::kProduct, [](int r) { return r - 5; }, -60);
  ExpectReduced<std::int64_t>(
      DataType::kInt64, Reduction::kMin, [](int r) { return std::int64_t{-r} << 40; },
      -(std::int64_t{2} << 40));
  ExpectReduced<std::uint64_t>(
      DataType::kUint64, Reduction::kSum, [](int r) { return ~std::uint64_t{0} + unsigned(r); }, 0);
  ExpectReduced<float>(
      DataType::kFloat32, Reduction::kAverage, [](int r) { return float(r) * 3; }, 3.0F);
  ExpectReduced<double>(
      DataType::kFloat64, Reduction::kSum, [](int r) { return std::ldexp(1.0, -50 * r); },
      1.0 + std::ldexp(1.0, -50) + std::ldexp(1.0, -100));
}

TEST(StandIn, RoundsSixteenBitFloats) {
  // Bits of 1, 2 and 3; 1 + 2 is exact, and so is 3 + 3 = 6.
  const auto half = [](int r) { return std::uint16_t(r == 0 ? 0x3c00 : r == 1 ? 0x4000 : 0x4200); };
  ExpectReduced<std::uint16_t>(DataType::kFloat16, Reduction::kSum, half, 0x4600);
  const auto brain = [](int r) {
    return std::uint16_t(r == 0 ? 0x3f80 : r == 1 ? 0x4000 : 0x4040);
  };
  ExpectReduced<std::uint16_t>(DataType::kBfloat16, Reduction::kSum, brain, 0x40c0);
  // 2048 + 1 + 1: each sum is rounded to even, so that the ones are lost.
  const auto lost = [](int r) { return std::uint16_t(r == 0 ? 0x6800 : 0x3c00); };
  ExpectReduced<std::uint16_t>(DataType::kFloat16, Reduction::kSum, lost, 0x6800);
  // The largest half doubled is infinity; the smallest subnormal thrice is kept.
  const auto large = [](int r) { return std::uint16_t(r < 2 ? 0x7bff : 0); };
  ExpectReduced<std::uint16_t>(DataType::kFloat16, Reduction::kSum, large, 0x7c00);
  const auto small = [](int) { return std::uint16_t(1); };
  ExpectReduced<std::uint16_t>(DataType::kFloat16, Reduction::kSum, small, 3);
}

TEST(StandIn, RunsTheOtherCollectives) {
  World(4, [](Rank& self) {
    constexpr std::size_t kCount = 20'000;
    const float own = static_cast<float>(self.rank + 1);
    const Device<float> source(std::vector<float>(kCount * 4, own));
    const Device<float> target(std::vector<float>(kCount * 4, -1.0F));
    const void* const from = source.get();
    void* const to = target.get();
    const auto type = DataType::kFloat32;

    ASSERT_EQ(
        Call("ncclReduce", from, to, kCount, type, Reduction::kSum, 2, self.comm, self.stream),
        Code::kSuccess);
    ASSERT_EQ(self.Synchronize(), Code::kSuccess);
    EXPECT_EQ(target.Get()[7], self.rank == 2 ? 10.0F : -1.0F);

    ASSERT_EQ(Call("ncclBroadcast", from, to, kCount, type, 3, self.comm, self.stream),
              Code::kSuccess);
    ASSERT_EQ(self.Synchronize(), Code::kSuccess);
    EXPECT_EQ(target.Get()[kCount - 1], 4.0F);

    ASSERT_EQ(Call("ncclAllGather", from, to, kCount, type, self.comm, self.stream),
              Code::kSuccess);
    ASSERT_EQ(self.Synchronize(), Code::kSuccess);
    const auto gathered = target.Get();
    for (std::size_t i = 0; i < gathered.size(); ++i) {
      ASSERT_EQ(gathered[i], static_cast<float>(i / kCount + 1));
    }

    std::vector<float> parts(kCount * 4);
    for (std::size_t i = 0; i < parts.size(); ++i) parts[i] = own * static_cast<float>(i / kCount);
    Device<float> scattered(parts);
    ASSERT_EQ(Call("ncclReduceScatter", static_cast<const void*>(scattered.get()), to, kCount, type,
                   Reduction::kSum, self.comm, self.stream),
              Code::kSuccess);
    ASSERT_EQ(self.Synchronize(), Code::kSuccess);
    EXPECT_EQ(target.Get()[kCount - 1], 10.0F * static_cast<float>(self.rank));
  });
}

TEST(StandIn, SendsAndReceivesOfAGroupCross) {
  World(3, [](Rank& self) {
    constexpr std::size_t kCount = 1'000'000;  // more than sockets hold
    std::vector<Device<std::int32_t>*> sent, got;
    ASSERT_EQ(Call("ncclGroupStart"), Code::kSuccess);
    for (int peer = 0; peer < self.size; ++peer) {
      sent.push_back(
          new Device<std::int32_t>(std::vector<std::int32_t>(kCount, self.rank * 10 + peer)));
      got.push_back(new Device<std::int32_t>(std::vector<std::int32_t>(kCount)));
      EXPECT_EQ(Call("ncclSend", static_cast<const void*>(sent.back()->get()), kCount,
                     DataType::kInt32, peer, self.comm, self.stream),
                Code::kSuccess);
      EXPECT_EQ(Call("ncclRecv", static_cast<void*>(got.back()->get()), kCount, DataType::kInt32,
                     peer, self.comm, self.stream),
                Code::kSuccess);
    }
    ASSERT_EQ(Call("ncclGroupEnd"), Code::kSuccess);
    EXPECT_EQ(self.Synchronize(), Code::kSuccess);
    for (int peer = 0; peer < self.size; ++peer) {
      EXPECT_EQ(got[std::size_t(peer)]->Get(),
                std::vector<std::int32_t>(kCount, peer * 10 + self.rank));
      delete sent[std::size_t(peer)];
      delete got[std::size_t(peer)];
    }
  });
}

float SumOver(Comm comm, Stream stream, float own) {
  const Device<float> value(std::vector<float>(1, own));
  EXPECT_EQ(
      Call("ncclAllReduce", static_cast<const void*>(value.get()), static_cast<void*>(value.get()),
           std::size_t{1}, DataType::kFloat32, Reduction::kSum, comm, stream),
      Code::kSuccess);
  EXPECT_EQ(Cuda("cudaStreamSynchronize", stream), CudaCode::kSuccess);
  return value.Get()[0];
}

TEST(StandIn, SplitsByColorAndKey) {
  World(5, [](Rank& self) {
    Config* const no_config = nullptr;
    Comm child = nullptr;
    const int color = self.rank == 4 ? -1 : self.rank % 2;
    ASSERT_EQ(Call("ncclCommSplit", self.comm, color, -self.rank, &child, no_config),
              Code::kSuccess);
    if (self.rank == 4) {
      EXPECT_EQ(child, nullptr);
      return;
    }
    int rank = -1, size = 0;
    Call("ncclCommUserRank", child, &rank);
    Call("ncclCommCount", child, &size);
    EXPECT_EQ(size, 2);
    EXPECT_EQ(rank, self.rank < 2 ? 1 : 0);  // keys fall
    EXPECT_EQ(SumOver(child, self.stream, static_cast<float>(self.rank)),
              self.rank % 2 == 0 ? 2.0F : 4.0F);
    EXPECT_EQ(Call("ncclCommDestroy", child), Code::kSuccess);
  });
}

TEST(StandIn, ShrinksPastAHungOperation) {
  // The child has no rank 3, so it does not hang.
  setenv("MUSTER_STANDIN_HANG", "3:1", 1);
  World(4, [](Rank& self) {
    const Device<float> value(std::vector<float>(1, 1.0F));
    ASSERT_EQ(Call("ncclAllReduce", static_cast<const void*>(value.get()),
                   static_cast<void*>(value.get()), std::size_t{1}, DataType::kFloat32,
                   Reduction::kSum, self.comm, self.stream),
              Code::kSuccess);
    if (self.rank == 3) {
      std::this_thread::sleep_for(milliseconds(300));
    } else {
      std::this_thread::sleep_for(milliseconds(50));
      int excluded[] = {3};
      Comm child = nullptr;
      Config* const no_config = nullptr;
      ASSERT_EQ(
          Call("ncclCommShrink", self.comm, static_cast<int*>(excluded), 1, &child, no_config, 1),
          Code::kSuccess);
      int size = 0;
      Call("ncclCommCount", child, &size);
      EXPECT_EQ(size, 3);
      EXPECT_EQ(SumOver(child, self.stream, 1.0F), 3.0F);
      EXPECT_EQ(Call("ncclCommDestroy", child), Code::kSuccess);
    }
    EXPECT_EQ(Call("ncclCommAbort", self.comm), Code::kSuccess);
    self.comm = nullptr;
  });
  unsetenv("MUSTER_STANDIN_HANG");
}

TEST(StandIn, ShrinkGivesRanksAnew) {
  World(4, [](Rank& self) {
    if (self.rank != 1) {
      int excluded[] = {1};
      Comm child = nullptr;
      Config* const no_config = nullptr;
      ASSERT_EQ(
          Call("ncclCommShrink", self.comm, static_cast<int*>(excluded), 1, &child, no_config, 0),
          Code::kSuccess);
      int rank = -1;
      Call("ncclCommUserRank", child, &rank);
      EXPECT_EQ(rank, self.rank == 0 ? 0 : self.rank - 1);
      EXPECT_EQ(SumOver(child, self.stream, static_cast<float>(self.rank)), 5.0F);
      EXPECT_EQ(Call("ncclCommDestroy", child), Code::kSuccess);
    }
  });
}

// ------------------------------------------------------------------------------- CUDA's runtime

TEST(StandIn, CopiesOfPageableMemoryWaitForTheStream) {
  Stream stream = nullptr;
  ASSERT_EQ(Cuda("cudaStreamCreate", &stream), CudaCode::kSuccess);
  const auto sleep = +[](void*) { std::this_thread::sleep_for(milliseconds(200)); };
  ASSERT_EQ(Cuda("cudaLaunchHostFunc", stream, sleep, static_cast<void*>(nullptr)),
            CudaCode::kSuccess);
  EXPECT_EQ(Cuda("cudaStreamQuery", stream), CudaCode::kNotReady);
  const Device<int> device(std::vector<int>{1, 2, 3});
  std::vector<int> pageable(3);
  void* pinned = nullptr;
  ASSERT_EQ(Cuda("cudaMallocHost", &pinned, std::size_t{12}), CudaCode::kSuccess);
  const auto copy = [&](void* host) {
    return Cuda("cudaMemcpyAsync", host, static_cast<const void*>(device.get()), std::size_t{12},
                comm::cuda::CopyKind::kDeviceToHost, stream);
  };
  ASSERT_EQ(copy(pinned), CudaCode::kSuccess);
  EXPECT_EQ(Cuda("cudaStreamQuery", stream), CudaCode::kNotReady);
  ASSERT_EQ(copy(pageable.data()), CudaCode::kSuccess);
  EXPECT_EQ(Cuda("cudaStreamQuery", stream), CudaCode::kSuccess);
  EXPECT_EQ(pageable, (std::vector<int>{1, 2, 3}));
  EXPECT_EQ(std::memcmp(pinned, pageable.data(), 12), 0);
  EXPECT_EQ(Cuda("cudaFreeHost", pinned), CudaCode::kSuccess);
  EXPECT_EQ(Cuda("cudaStreamDestroy", stream), CudaCode::kSuccess);
  EXPECT_EQ(Cuda("cudaStreamDestroy", stream), CudaCode::kInvalidResourceHandle);
  EXPECT_EQ(Cuda("cudaGetLastError"), CudaCode::kInvalidResourceHandle);
  EXPECT_EQ(Cuda("cudaGetLastError"), CudaCode::kSuccess);
}

TEST(StandIn, RefusesWrongMemory) {
  int host = 0, other = 0;
  EXPECT_EQ(Cuda("cudaMemcpy", static_cast<void*>(&host), static_cast<const void*>(&other),
                 sizeof(int), comm::cuda::CopyKind::kHostToDevice),
            CudaCode::kInvalidValue);
  const Device<int> device(std::vector<int>(1));
  EXPECT_EQ(Cuda("cudaMemcpy", static_cast<void*>(device.get()), static_cast<const void*>(&host),
                 2 * sizeof(int), comm::cuda::CopyKind::kHostToDevice),
            CudaCode::kInvalidValue);
  EXPECT_EQ(Cuda("cudaFree", static_cast<void*>(&host)), CudaCode::kInvalidValue);
  EXPECT_EQ(Cuda("cudaSetDevice", 8), CudaCode::kInvalidDevice);
  Cuda("cudaGetLastError");
}

TEST(StandIn, EventsMarkAPlaceInTheStream) {
  Stream stream = nullptr;
  comm::cuda::Event begin = nullptr, end = nullptr;
  Cuda("cudaStreamCreate", &stream);
  Cuda("cudaEventCreate", &begin);
  Cuda("cudaEventCreate", &end);
  const auto sleep = +[](void*) { std::this_thread::sleep_for(milliseconds(60)); };
  EXPECT_EQ(Cuda("cudaEventQuery", end), CudaCode::kSuccess);
  Cuda("cudaEventRecord", begin, stream);
  Cuda("cudaLaunchHostFunc", stream, sleep, static_cast<void*>(nullptr));
  Cuda("cudaEventRecord", end, stream);
  EXPECT_EQ(Cuda("cudaEventQuery", end), CudaCode::kNotReady);
  EXPECT_EQ(Cuda("cudaEventSynchronize", end), CudaCode::kSuccess);
  float elapsed = 0;
  EXPECT_EQ(Cuda("cudaEventElapsedTime", &elapsed, begin, end), CudaCode::kSuccess);
  EXPECT_GE(elapsed, 59.0F);
  EXPECT_LT(elapsed, 1000.0F);
  Cuda("cudaEventDestroy", begin);
  Cuda("cudaEventDestroy", end);
  Cuda("cudaStreamDestroy", stream);
}

TEST(StandIn, DevicePropertiesFitTheRealStructure) {
  std::vector<char> properties(1008, 'x');
  ASSERT_EQ(Cuda("cudaGetDeviceProperties", static_cast<void*>(properties.data()), 3),
            CudaCode::kSuccess);
  EXPECT_STREQ(properties.data(), "muster stand-in");
  EXPECT_EQ(properties[568], 19);
  char id[32] = "";
  ASSERT_EQ(Cuda("cudaDeviceGetPCIBusId", static_cast<char*>(id), 32, 3), CudaCode::kSuccess);
  EXPECT_STREQ(id, "0000:13:00.0");
}

}  // namespace
}  // namespace muster::test
