#pragma once

// The few calls of NCCL that the NCCL group needs, bound at run time.
//
// Own declarations of its binary interface (as of 2.28; older libraries read the part of Config
// that they know), so that NCCL is needed neither to build nor to start; tests/unit/nccl compares
// them with the real header where it is installed. Used by comm/nccl_* and the stand-in of the
// tests.

#include <climits>
#include <cstddef>
#include <string>
#include <vector>

#include "common/status.h"
#include "trainer_runtime/comm/cuda_api.h"

namespace muster::comm::nccl {

struct CommState;  // never defined here
using Comm = CommState*;

inline constexpr std::size_t kUniqueIdBytes = 128;
struct UniqueId {
  char internal[kUniqueIdBytes] = {};
};

// ncclResult_t
enum class Code : unsigned {
  kSuccess = 0,
  kUnhandledCudaError = 1,
  kSystemError = 2,
  kInternalError = 3,
  kInvalidArgument = 4,
  kInvalidUsage = 5,
  kRemoteError = 6,
  kInProgress = 7,
};

// ncclDataType_t
enum class DataType : unsigned {
  kInt8 = 0,
  kUint8 = 1,
  kInt32 = 2,
  kUint32 = 3,
  kInt64 = 4,
  kUint64 = 5,
  kFloat16 = 6,
  kFloat32 = 7,
  kFloat64 = 8,
  kBfloat16 = 9,
  kFloat8e4m3 = 10,
  kFloat8e5m2 = 11,
};

// ncclRedOp_t
enum class Reduction : unsigned { kSum = 0, kProduct = 1, kMax = 2, kMin = 3, kAverage = 4 };

inline constexpr int kUndefined = INT_MIN;
inline constexpr unsigned kConfigMagic = 0xcafebeef;
inline constexpr unsigned kConfigVersion = 22800;  // the layout below

// ncclConfig_t
struct Config {
  std::size_t size = sizeof(Config);
  unsigned magic = kConfigMagic;
  unsigned version = kConfigVersion;
  int blocking = kUndefined;
  int cga_cluster_size = kUndefined;
  int min_ctas = kUndefined;
  int max_ctas = kUndefined;
  const char* net_name = nullptr;
  int split_share = kUndefined;
  int traffic_class = kUndefined;
  const char* comm_name = nullptr;
  int collnet_enable = kUndefined;
  int cta_policy = kUndefined;
  int shrink_share = kUndefined;
  int nvls_ctas = kUndefined;
  int n_channels_per_net_peer = kUndefined;
  int nvlink_centric_sched = kUndefined;
};

struct Api {
  std::string path;  // the file it came from
  int version = 0;   // 22809 is 2.28.9

  Code (*get_version)(int* version) = nullptr;
  Code (*get_unique_id)(UniqueId* id) = nullptr;
  Code (*comm_init_rank_config)(Comm* comm, int ranks, UniqueId id, int rank,
                                Config* config) = nullptr;
  Code (*comm_finalize)(Comm comm) = nullptr;
  Code (*comm_destroy)(Comm comm) = nullptr;
  Code (*comm_abort)(Comm comm) = nullptr;
  Code (*comm_revoke)(Comm comm, int flags) = nullptr;  // null before 2.28.7
  Code (*comm_get_async_error)(Comm comm, Code* code) = nullptr;
  const char* (*get_error_string)(Code code) = nullptr;
  const char* (*get_last_error)(Comm comm) = nullptr;
  Code (*all_reduce)(const void* source, void* target, std::size_t count, DataType type,
                     Reduction reduction, Comm comm, cuda::Stream stream) = nullptr;
  Code (*broadcast)(const void* source, void* target, std::size_t count, DataType type, int root,
                    Comm comm, cuda::Stream stream) = nullptr;
  Code (*all_gather)(const void* source, void* target, std::size_t count, DataType type, Comm comm,
                     cuda::Stream stream) = nullptr;
};

// "ncclRemoteError" and so on.
std::string CodeName(Code code);
// "2.28.9"
std::string VersionText(int version);

// Loads libnccl once per path. `path`: a file, a folder that holds one, or empty for the loader's
// search, then CUDA's usual folders.
Result<const Api*> Load(const std::string& path = {});

// What Load tries, in order.
std::vector<std::string> LibraryNames(const std::string& path);

}  // namespace muster::comm::nccl
