// How communicators of the stand-in fail and end: errors, revokes, aborts, wrong use.

#include <gmock/gmock.h>

#include <atomic>

#include "tests/unit/nccl/standin.h"

namespace muster::test {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

Code Reduce(const Rank& self, const Device<float>& values, std::size_t count) {
  return Call("ncclAllReduce", static_cast<const void*>(values.get()),
              static_cast<void*>(values.get()), count, DataType::kFloat32, Reduction::kSum,
              self.comm, self.stream);
}

std::string LastError() { return Call<const char*>("ncclGetLastError", Comm{}); }

TEST(StandInEnd, AbortedPeerIsARemoteErrorAndTheStreamStands) {
  World(3, [](Rank& self) {
    const Device<float> values(std::vector<float>(100'000, 1.0F));
    if (self.rank == 1) {
      std::this_thread::sleep_for(milliseconds(100));
    } else {
      ASSERT_EQ(Reduce(self, values, 100'000), Code::kSuccess);
      Code state = Code::kSuccess;
      for (int i = 0; i < 500 && state == Code::kSuccess; ++i) {
        std::this_thread::sleep_for(milliseconds(10));
        Call("ncclCommGetAsyncError", self.comm, &state);
      }
      EXPECT_EQ(state, Code::kRemoteError);
      EXPECT_THAT(LastError(), HasSubstr("Connection closed by remote peer"));
      EXPECT_EQ(Cuda("cudaStreamQuery", self.stream), CudaCode::kNotReady);
    }
    EXPECT_EQ(Call("ncclCommAbort", self.comm), Code::kSuccess);
    EXPECT_EQ(Cuda("cudaStreamSynchronize", self.stream), CudaCode::kSuccess);
    self.comm = nullptr;
  });
}

TEST(StandInEnd, HandleThatIsGoneIsAnErrorAndNoCrash) {
  World(1, [](Rank& self) {
    const Device<float> values(std::vector<float>(1));
    ASSERT_EQ(Call("ncclCommDestroy", self.comm), Code::kSuccess);
    EXPECT_EQ(Reduce(self, values, 1), Code::kInvalidArgument);
    EXPECT_THAT(LastError(), HasSubstr("destroyed or aborted before"));
    EXPECT_EQ(Call("ncclCommAbort", self.comm), Code::kInvalidArgument);
    self.comm = nullptr;
  });
}

TEST(StandInEnd, DestroyInPeaceIsNoErrorForOthers) {
  World(3, [](Rank& self) {
    const Device<float> values(std::vector<float>(100'000, 1.0F));
    ASSERT_EQ(Reduce(self, values, 100'000), Code::kSuccess);
    ASSERT_EQ(self.Synchronize(), Code::kSuccess);
    if (self.rank == 0) {
      std::this_thread::sleep_for(milliseconds(200));
      Code state = Code::kInternalError;
      ASSERT_EQ(Call("ncclCommGetAsyncError", self.comm, &state), Code::kSuccess);
      EXPECT_EQ(state, Code::kSuccess);
    }
  });
}

TEST(StandInEnd, RevokedCommunicatorTakesNoOperationAndCanBeDestroyed) {
  setenv("MUSTER_STANDIN_HANG", "0:2", 1);
  World(2, [](Rank& self) {
    const Device<float> values(std::vector<float>(10, 1.0F));
    ASSERT_EQ(Reduce(self, values, 10), Code::kSuccess);
    ASSERT_EQ(self.Synchronize(), Code::kSuccess);
    ASSERT_EQ(Reduce(self, values, 10), Code::kSuccess);
    std::this_thread::sleep_for(milliseconds(100));
    EXPECT_EQ(Cuda("cudaStreamQuery", self.stream), CudaCode::kNotReady);
    EXPECT_EQ(Call("ncclCommRevoke", self.comm, 1), Code::kInvalidArgument);
    EXPECT_EQ(Call("ncclCommRevoke", self.comm, 0), Code::kSuccess);
    EXPECT_EQ(Cuda("cudaStreamSynchronize", self.stream), CudaCode::kSuccess);
    EXPECT_EQ(Reduce(self, values, 10), Code::kInvalidUsage);
    EXPECT_THAT(LastError(), HasSubstr("communicator was revoked"));
    EXPECT_EQ(Call("ncclCommRevoke", self.comm, 0), Code::kInvalidArgument);
    EXPECT_EQ(Call("ncclCommFinalize", self.comm), Code::kInvalidUsage);
  });
  unsetenv("MUSTER_STANDIN_HANG");
}

TEST(StandInEnd, DifferentOperationsAreFoundOut) {
  World(2, [](Rank& self) {
    const Device<float> values(std::vector<float>(10, 1.0F));
    ASSERT_EQ(Reduce(self, values, self.rank == 0 ? 10 : 9), Code::kSuccess);
    Code state = Code::kSuccess;
    for (int i = 0; i < 500 && state == Code::kSuccess; ++i) {
      std::this_thread::sleep_for(milliseconds(10));
      Call("ncclCommGetAsyncError", self.comm, &state);
    }
    EXPECT_TRUE(state == Code::kInvalidUsage || state == Code::kRemoteError);
    EXPECT_EQ(Call("ncclCommAbort", self.comm), Code::kSuccess);
    self.comm = nullptr;
  });
}

TEST(StandInEnd, NonBlockingOperationsNeedTheirStateAskedFor) {
  setenv("NCCL_SOCKET_IFNAME", "lo", 1);
  UniqueId id;
  ASSERT_EQ(Call("ncclGetUniqueId", &id), Code::kSuccess);
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([id, rank] {
      Cuda("cudaSetDevice", rank);
      Rank self{rank, 2, nullptr, nullptr};
      Cuda("cudaStreamCreate", &self.stream);
      Config config;
      config.blocking = 0;
      ASSERT_EQ(Call("ncclCommInitRankConfig", &self.comm, 2, id, rank, &config),
                Code::kInProgress);
      const Device<float> values(std::vector<float>(10, 1.0F));
      ASSERT_EQ(WaitWhileInProgress(self.comm), Code::kSuccess);
      ASSERT_EQ(Reduce(self, values, 10), Code::kInProgress);
      EXPECT_EQ(Reduce(self, values, 10), Code::kInvalidArgument);
      EXPECT_THAT(LastError(), HasSubstr("before the previous operation returned ncclSuccess"));
      std::this_thread::sleep_for(milliseconds(50));
      EXPECT_EQ(Cuda("cudaStreamSynchronize", self.stream), CudaCode::kSuccess);
      EXPECT_EQ(values.Get()[0], 1.0F) << "it ran before it was asked for";
      ASSERT_EQ(WaitWhileInProgress(self.comm), Code::kSuccess);
      EXPECT_EQ(self.Synchronize(), Code::kSuccess);
      EXPECT_EQ(values.Get()[0], 2.0F);
      EXPECT_EQ(Call("ncclCommFinalize", self.comm), Code::kInProgress);
      EXPECT_EQ(WaitWhileInProgress(self.comm), Code::kSuccess);
      EXPECT_EQ(Call("ncclCommDestroy", self.comm), Code::kSuccess);
      EXPECT_EQ(Cuda("cudaStreamDestroy", self.stream), CudaCode::kSuccess);
    });
  }
}

TEST(StandInEnd, WrongArgumentsAreRefused) {
  UniqueId id;
  Comm comm = nullptr;
  EXPECT_EQ(Call("ncclCommInitRank", &comm, 2, id, 2), Code::kInvalidArgument);
  EXPECT_THAT(LastError(), HasSubstr("Invalid rank requested : 2/2"));
  Config config;
  config.magic = 1;
  EXPECT_EQ(Call("ncclCommInitRankConfig", &comm, 2, id, 0, &config), Code::kInvalidArgument);
  EXPECT_EQ(Call("ncclGroupEnd"), Code::kInvalidUsage);
  World(1, [](Rank& self) {
    const Device<float> values(std::vector<float>(1));
    void* const memory = values.get();
    const void* const nothing = nullptr;
    EXPECT_EQ(Call("ncclBroadcast", static_cast<const void*>(memory), memory, std::size_t{1},
                   DataType::kFloat32, 1, self.comm, self.stream),
              Code::kInvalidArgument);
    EXPECT_EQ(Call("ncclAllReduce", nothing, memory, std::size_t{1}, DataType::kFloat32,
                   Reduction::kSum, self.comm, self.stream),
              Code::kInvalidArgument);
    EXPECT_EQ(Call("ncclAllReduce", static_cast<const void*>(memory), memory, std::size_t{1},
                   DataType::kFloat8e4m3, Reduction::kSum, self.comm, self.stream),
              Code::kInvalidArgument);
  });
}

TEST(StandInEnd, InterfaceThatIsNotThereIsInvalidUsage) {
  setenv("NCCL_SOCKET_IFNAME", "=nosuch0", 1);
  UniqueId id;
  EXPECT_EQ(Call("ncclGetUniqueId", &id), Code::kInvalidUsage);
  EXPECT_THAT(LastError(), HasSubstr("no socket interface found"));
  setenv("NCCL_SOCKET_IFNAME", "lo", 1);
}

TEST(StandInEnd, TwoProcessesOfOneRankAreFoundOut) {
  setenv("NCCL_SOCKET_IFNAME", "lo", 1);
  UniqueId id;
  ASSERT_EQ(Call("ncclGetUniqueId", &id), Code::kSuccess);
  std::atomic<int> refused = 0, formed = 0;
  std::vector<std::jthread> threads;
  const auto join = [&](int rank) {
    Comm comm = nullptr;
    const Code code = Call("ncclCommInitRank", &comm, 2, id, rank);
    refused += code == Code::kInternalError ? 1 : 0;
    formed += code == Code::kSuccess ? 1 : 0;
    // An abort would end the root, which is in this process too.
    EXPECT_EQ(Call("ncclCommDestroy", comm), Code::kSuccess);
  };
  threads.emplace_back(join, 0);
  threads.emplace_back(join, 0);
  std::this_thread::sleep_for(milliseconds(200));
  EXPECT_EQ(refused, 1);
  threads.emplace_back(join, 1);
  threads.clear();
  EXPECT_EQ(formed, 2);
}

}  // namespace
}  // namespace muster::test
