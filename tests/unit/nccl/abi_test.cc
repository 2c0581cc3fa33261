// Our declarations of CUDA's and NCCL's binary interfaces against the real headers, at compile
// time.

#include <gtest/gtest.h>

#include <cstddef>
#include <type_traits>

#include "trainer_runtime/comm/cuda_api.h"
#include "trainer_runtime/comm/nccl_api.h"

#ifdef MUSTER_HAS_NCCL_HEADERS

#include <cuda_runtime_api.h>
#include <nccl.h>

namespace muster::comm {
namespace {

// Passed alike: both pointers, both integers or enumerations of one size, or both plain structures
// of one size and alignment.
template <typename A, typename B>
constexpr bool kSameValue = (std::is_void_v<A> && std::is_void_v<B>) ||
                            (std::is_pointer_v<A> && std::is_pointer_v<B>) || [] {
                              if constexpr (!std::is_void_v<A> && !std::is_void_v<B>) {
                                constexpr bool kNumbers =
                                    (std::is_integral_v<A> || std::is_enum_v<A>)&&(
                                        std::is_integral_v<B> || std::is_enum_v<B>);
                                constexpr bool kPlain = std::is_class_v<A> && std::is_class_v<B> &&
                                                        std::is_trivially_copyable_v<A> &&
                                                        std::is_trivially_copyable_v<B>;
                                return (kNumbers || kPlain) && sizeof(A) == sizeof(B) &&
                                       alignof(A) == alignof(B);
                              }
                              return false;
                            }();

template <typename A, typename B>
struct SameCall : std::false_type {};
template <typename RA, typename... A, typename RB, typename... B>
requires(sizeof...(A) == sizeof...(B)) struct SameCall<RA (*)(A...), RB (*)(B...)>
    : std::bool_constant<kSameValue<RA, RB> && (kSameValue<A, B> && ...)> {
};

#define SAME_CALL(api, member, real) \
  static_assert(SameCall<decltype(api::member), decltype(&(real))>::value, #real)

// The check itself can fail.
static_assert(!SameCall<int (*)(int), int (*)(long)>::value);
static_assert(!SameCall<int (*)(int), int (*)(int, int)>::value);
static_assert(!SameCall<int (*)(void*), int (*)(std::size_t)>::value);

#define SAME_NUMBER(ours, theirs) \
  static_assert(static_cast<long long>(ours) == static_cast<long long>(theirs), #theirs)

// ------------------------------------------------------------------------------- CUDA

SAME_CALL(cuda::Api, get_device_count, cudaGetDeviceCount);
SAME_CALL(cuda::Api, set_device, cudaSetDevice);
SAME_CALL(cuda::Api, device_get_pci_bus_id, cudaDeviceGetPCIBusId);
SAME_CALL(cuda::Api, runtime_get_version, cudaRuntimeGetVersion);
SAME_CALL(cuda::Api, driver_get_version, cudaDriverGetVersion);
static_assert(SameCall<decltype(cuda::Api::allocate), cudaError_t (*)(void**, size_t)>::value);
SAME_CALL(cuda::Api, free, cudaFree);
SAME_CALL(cuda::Api, memcpy_async, cudaMemcpyAsync);
SAME_CALL(cuda::Api, stream_create_with_flags, cudaStreamCreateWithFlags);
SAME_CALL(cuda::Api, stream_destroy, cudaStreamDestroy);
SAME_CALL(cuda::Api, event_create_with_flags, cudaEventCreateWithFlags);
SAME_CALL(cuda::Api, event_record, cudaEventRecord);
SAME_CALL(cuda::Api, event_query, cudaEventQuery);
SAME_CALL(cuda::Api, event_destroy, cudaEventDestroy);
SAME_CALL(cuda::Api, get_last_error, cudaGetLastError);
SAME_CALL(cuda::Api, get_error_name, cudaGetErrorName);
SAME_CALL(cuda::Api, get_error_string, cudaGetErrorString);
SAME_NUMBER(cuda::Code::kSuccess, cudaSuccess);
SAME_NUMBER(cuda::Code::kInvalidValue, cudaErrorInvalidValue);
SAME_NUMBER(cuda::Code::kMemoryAllocation, cudaErrorMemoryAllocation);
SAME_NUMBER(cuda::Code::kInsufficientDriver, cudaErrorInsufficientDriver);
SAME_NUMBER(cuda::Code::kNoDevice, cudaErrorNoDevice);
SAME_NUMBER(cuda::Code::kInvalidDevice, cudaErrorInvalidDevice);
SAME_NUMBER(cuda::Code::kInvalidResourceHandle, cudaErrorInvalidResourceHandle);
SAME_NUMBER(cuda::Code::kNotReady, cudaErrorNotReady);
SAME_NUMBER(cuda::CopyKind::kHostToHost, cudaMemcpyHostToHost);
SAME_NUMBER(cuda::CopyKind::kHostToDevice, cudaMemcpyHostToDevice);
SAME_NUMBER(cuda::CopyKind::kDeviceToHost, cudaMemcpyDeviceToHost);
SAME_NUMBER(cuda::CopyKind::kDeviceToDevice, cudaMemcpyDeviceToDevice);
SAME_NUMBER(cuda::CopyKind::kDefault, cudaMemcpyDefault);
SAME_NUMBER(cuda::kStreamNonBlocking, cudaStreamNonBlocking);
SAME_NUMBER(cuda::kEventDisableTiming, cudaEventDisableTiming);

#if CUDART_VERSION >= 13000
// What the stand-in's cudaGetDeviceProperties writes.
static_assert(sizeof(cudaDeviceProp) == 1008);
static_assert(offsetof(cudaDeviceProp, uuid) == 256);
static_assert(offsetof(cudaDeviceProp, totalGlobalMem) == 288);
static_assert(offsetof(cudaDeviceProp, warpSize) == 308);
static_assert(offsetof(cudaDeviceProp, maxThreadsPerBlock) == 320);
static_assert(offsetof(cudaDeviceProp, major) == 360);
static_assert(offsetof(cudaDeviceProp, multiProcessorCount) == 384);
static_assert(offsetof(cudaDeviceProp, pciBusID) == 568);
#endif

// ------------------------------------------------------------------------------- NCCL

SAME_CALL(nccl::Api, get_version, ncclGetVersion);
SAME_CALL(nccl::Api, get_unique_id, ncclGetUniqueId);
SAME_CALL(nccl::Api, comm_init_rank_config, ncclCommInitRankConfig);
SAME_CALL(nccl::Api, comm_finalize, ncclCommFinalize);
SAME_CALL(nccl::Api, comm_destroy, ncclCommDestroy);
SAME_CALL(nccl::Api, comm_abort, ncclCommAbort);
SAME_CALL(nccl::Api, comm_get_async_error, ncclCommGetAsyncError);
SAME_CALL(nccl::Api, get_error_string, ncclGetErrorString);
SAME_CALL(nccl::Api, get_last_error, ncclGetLastError);
SAME_CALL(nccl::Api, all_reduce, ncclAllReduce);
SAME_CALL(nccl::Api, broadcast, ncclBroadcast);
SAME_CALL(nccl::Api, all_gather, ncclAllGather);
static_assert(sizeof(nccl::UniqueId) == sizeof(ncclUniqueId));
SAME_NUMBER(nccl::Code::kSuccess, ncclSuccess);
SAME_NUMBER(nccl::Code::kUnhandledCudaError, ncclUnhandledCudaError);
SAME_NUMBER(nccl::Code::kSystemError, ncclSystemError);
SAME_NUMBER(nccl::Code::kInternalError, ncclInternalError);
SAME_NUMBER(nccl::Code::kInvalidArgument, ncclInvalidArgument);
SAME_NUMBER(nccl::Code::kInvalidUsage, ncclInvalidUsage);
SAME_NUMBER(nccl::Code::kRemoteError, ncclRemoteError);
SAME_NUMBER(nccl::Code::kInProgress, ncclInProgress);
SAME_NUMBER(nccl::DataType::kInt8, ncclInt8);
SAME_NUMBER(nccl::DataType::kUint8, ncclUint8);
SAME_NUMBER(nccl::DataType::kInt32, ncclInt32);
SAME_NUMBER(nccl::DataType::kUint32, ncclUint32);
SAME_NUMBER(nccl::DataType::kInt64, ncclInt64);
SAME_NUMBER(nccl::DataType::kUint64, ncclUint64);
SAME_NUMBER(nccl::DataType::kFloat16, ncclFloat16);
SAME_NUMBER(nccl::DataType::kFloat32, ncclFloat32);
SAME_NUMBER(nccl::DataType::kFloat64, ncclFloat64);
SAME_NUMBER(nccl::DataType::kBfloat16, ncclBfloat16);
SAME_NUMBER(nccl::Reduction::kSum, ncclSum);
SAME_NUMBER(nccl::Reduction::kProduct, ncclProd);
SAME_NUMBER(nccl::Reduction::kMax, ncclMax);
SAME_NUMBER(nccl::Reduction::kMin, ncclMin);
SAME_NUMBER(nccl::Reduction::kAverage, ncclAvg);
SAME_NUMBER(nccl::kUndefined, NCCL_CONFIG_UNDEF_INT);

#define SAME_FIELD(ours, theirs) \
  static_assert(offsetof(nccl::Config, ours) == offsetof(ncclConfig_t, theirs), #theirs)
SAME_FIELD(size, size);
SAME_FIELD(magic, magic);
SAME_FIELD(version, version);
SAME_FIELD(blocking, blocking);

#if NCCL_VERSION_CODE >= 22807
SAME_CALL(nccl::Api, comm_revoke, ncclCommRevoke);
SAME_NUMBER(0, NCCL_REVOKE_DEFAULT);
SAME_FIELD(cga_cluster_size, cgaClusterSize);
SAME_FIELD(min_ctas, minCTAs);
SAME_FIELD(max_ctas, maxCTAs);
SAME_FIELD(net_name, netName);
SAME_FIELD(split_share, splitShare);
SAME_FIELD(traffic_class, trafficClass);
SAME_FIELD(comm_name, commName);
SAME_FIELD(collnet_enable, collnetEnable);
SAME_FIELD(cta_policy, CTAPolicy);
SAME_FIELD(shrink_share, shrinkShare);
SAME_FIELD(nvls_ctas, nvlsCTAs);
SAME_FIELD(n_channels_per_net_peer, nChannelsPerNetPeer);
SAME_FIELD(nvlink_centric_sched, nvlinkCentricSched);
// A later version may only add fields at the end.
static_assert(sizeof(nccl::Config) <= sizeof(ncclConfig_t));
#if NCCL_VERSION_CODE < 22900
static_assert(sizeof(nccl::Config) == sizeof(ncclConfig_t));
#endif
#endif

TEST(Abi, ConfigurationsBeginAlike) {
  const ncclConfig_t real = NCCL_CONFIG_INITIALIZER;
  const nccl::Config ours;
  EXPECT_EQ(ours.magic, real.magic);
  EXPECT_LE(ours.version, real.version);
  EXPECT_EQ(ours.blocking, real.blocking);
  EXPECT_EQ(ours.comm_name, real.commName);
}

}  // namespace
}  // namespace muster::comm

#else

TEST(Abi, ConfigurationsBeginAlike) {
  GTEST_SKIP() << "nccl.h and cuda_runtime_api.h are not installed here: nothing to compare with";
}

#endif
