// libnccl.so.2 of the stand-in (README.md): NCCL's calls, checked and passed on.

#include <cstdlib>
#include <map>

#include "tests/standin/nccl_group.h"

extern "C" {
muster::comm::cuda::Code cudaGetDevice(int* device);
muster::comm::cuda::Code cudaMalloc(void** memory, std::size_t bytes);
muster::comm::cuda::Code cudaFree(void* memory);
}

namespace muster::standin {
namespace {

using comm::cuda::Stream;
using comm::nccl::Comm;
using comm::nccl::Config;

constexpr int kVersion = 22809;

// Never destroyed: streams may run while the process ends.
struct Table {
  std::mutex mutex;
  std::map<Comm, std::shared_ptr<Communicator>> communicators;
};
Table& TheTable() {
  static auto* const table = new Table;
  return *table;
}

std::shared_ptr<Communicator> Find(Comm comm) {
  Table& table = TheTable();
  const std::lock_guard lock(table.mutex);
  const auto place = table.communicators.find(comm);
  if (place != table.communicators.end()) return place->second;
  Warn("corrupted comm object detected: it was never made, or destroyed or aborted before");
  return nullptr;
}

Comm Keep(const std::shared_ptr<Communicator>& communicator) {
  const auto handle = reinterpret_cast<Comm>(communicator.get());
  Table& table = TheTable();
  const std::lock_guard lock(table.mutex);
  table.communicators[handle] = communicator;
  return handle;
}

// Out of the table, so that no other call finds it.
std::shared_ptr<Communicator> Take(Comm comm) {
  std::shared_ptr<Communicator> communicator = Find(comm);
  Table& table = TheTable();
  const std::lock_guard lock(table.mutex);
  table.communicators.erase(comm);
  return communicator;
}

Code Settings(int rank, int size, const Config* config, Communicator::Settings* settings) {
  if (size < 1 || rank < 0 || rank >= size) {
    Warn("Invalid rank requested : " + std::to_string(rank) + "/" + std::to_string(size));
    return Code::kInvalidArgument;
  }
  settings->rank = rank;
  settings->size = size;
  if (cudaGetDevice(&settings->device) != comm::cuda::Code::kSuccess) {
    Warn("Cuda failure 100 'no CUDA-capable device is detected'");
    return Code::kUnhandledCudaError;
  }
  if (config == nullptr) return Code::kSuccess;
  if (config->magic != comm::nccl::kConfigMagic) {
    Warn("ncclConfig_t argument not initialized via NCCL_CONFIG_INITIALIZER");
    return Code::kInvalidArgument;
  }
  settings->blocking = config->blocking != 0;
  if (config->comm_name != nullptr) settings->name = config->comm_name;
  return Code::kSuccess;
}

Code Collective(const char* name, Comm comm, Stream stream, const Operation& operation) {
  const auto communicator = Find(comm);
  if (communicator == nullptr) return Code::kInvalidArgument;
  if (const Code code = communicator->Ready(name); code != Code::kSuccess) return code;
  const int size = communicator->settings().size, rank = communicator->settings().rank;
  const bool reads = operation.kind != Kind::kReceive &&
                     (operation.kind != Kind::kBroadcast || operation.root == rank);
  const bool writes =
      operation.kind != Kind::kSend && (operation.kind != Kind::kReduce || operation.root == rank);
  std::string wrong;
  if (operation.root < 0 || operation.root >= size) {
    wrong = "invalid root " + std::to_string(operation.root);
  } else if (SizeOf(operation.type) == 0) {
    wrong = "invalid type " + std::to_string(static_cast<unsigned>(operation.type));
  } else if ((operation.kind == Kind::kAllReduce || operation.kind == Kind::kReduce ||
              operation.kind == Kind::kReduceScatter) &&
             !IsReducible(operation.type, operation.reduction)) {
    wrong = "the stand-in does not know this reduction";
  } else if (operation.count > 0 &&
             ((reads && operation.source == nullptr) || (writes && operation.target == nullptr))) {
    wrong = "a buffer is NULL";
  }
  if (!wrong.empty()) {
    Warn(std::string(name) + " : " + wrong);
    return Code::kInvalidArgument;
  }
  return Enqueue(communicator, stream, operation);
}

Code Child(Comm* child, const std::shared_ptr<Communicator>& made, bool is_member) {
  *child = is_member ? Keep(made) : nullptr;
  const Code code = is_member ? AwaitForming(made) : made->WaitFormed();
  if (!is_member) made->Destroy();
  return code;
}

}  // namespace

extern "C" {

Code ncclGetVersion(int* version) {
  *version = kVersion;
  return Code::kSuccess;
}

Code ncclGetUniqueId(UniqueId* id) {
  const Code code = StartRoot(id);
  if (code == Code::kInvalidUsage) Warn("Bootstrap : no socket interface found");
  return code;
}

// ------------------------------------------------------------------------------- communicators

Code ncclCommInitRankConfig(Comm* comm, int size, UniqueId id, int rank, Config* config) {
  Communicator::Settings settings;
  *comm = nullptr;
  if (const Code code = Settings(rank, size, config, &settings); code != Code::kSuccess) {
    return code;
  }
  const auto communicator = std::make_shared<Communicator>(settings);
  communicator->StartFromId(id);
  *comm = Keep(communicator);
  return AwaitForming(communicator);
}
Code ncclCommInitRank(Comm* comm, int size, UniqueId id, int rank) {
  return ncclCommInitRankConfig(comm, size, id, rank, nullptr);
}
Code ncclCommInitRankScalable(Comm* comm, int size, int rank, int ids, UniqueId* id,
                              Config* config) {
  if (ids < 1) return Code::kInvalidArgument;
  return ncclCommInitRankConfig(comm, size, id[0], rank, config);
}
Code ncclCommSplit(Comm comm, int color, int key, Comm* child, Config* config) {
  const auto parent = Find(comm);
  if (parent == nullptr) return Code::kInvalidArgument;
  Communicator::Settings settings = parent->settings();
  if (config != nullptr && config->blocking != comm::nccl::kUndefined) {
    settings.blocking = config->blocking != 0;
  }
  const auto made = std::make_shared<Communicator>(settings);
  made->StartSplit(parent, color, key);
  return Child(child, made, color >= 0);
}
Code ncclCommShrink(Comm comm, int* excluded, int count, Comm* child, Config* config, int flags) {
  const auto parent = Find(comm);
  if (parent == nullptr || count < 1 || excluded == nullptr) return Code::kInvalidArgument;
  constexpr int kAbort = 1;
  if ((flags & kAbort) != 0) parent->Interrupt();
  Communicator::Settings settings = parent->settings();
  if (config != nullptr && config->blocking != comm::nccl::kUndefined) {
    settings.blocking = config->blocking != 0;
  }
  const auto made = std::make_shared<Communicator>(settings);
  made->StartShrink(parent, std::vector<int>(excluded, excluded + count));
  return Child(child, made, true);
}
Code ncclCommFinalize(Comm comm) {
  const auto communicator = Find(comm);
  return communicator != nullptr ? communicator->Finalize() : Code::kInvalidArgument;
}
Code ncclCommDestroy(Comm comm) {
  if (comm == nullptr) return Code::kSuccess;
  const auto communicator = Find(comm);
  if (communicator == nullptr) return Code::kInvalidArgument;
  const Code code = communicator->Destroy();
  if (code == Code::kSuccess) Take(comm);
  return code;
}
Code ncclCommAbort(Comm comm) {
  if (comm == nullptr) return Code::kSuccess;
  const auto communicator = Take(comm);
  return communicator != nullptr ? communicator->Abort() : Code::kInvalidArgument;
}
Code ncclCommRevoke(Comm comm, int flags) {
  if (comm == nullptr) return Code::kSuccess;
  const auto communicator = Find(comm);
  if (communicator == nullptr || flags != 0) return Code::kInvalidArgument;
  return communicator->Revoke();
}
Code ncclCommGetAsyncError(Comm comm, Code* code) {
  const auto communicator = Find(comm);
  if (communicator == nullptr) return Code::kInvalidArgument;
  *code = communicator->AsyncError();
  return Code::kSuccess;
}
Code ncclCommCount(Comm comm, int* count) {
  const auto communicator = Find(comm);
  if (communicator == nullptr) return Code::kInvalidArgument;
  *count = communicator->settings().size;
  return Code::kSuccess;
}
Code ncclCommUserRank(Comm comm, int* rank) {
  const auto communicator = Find(comm);
  if (communicator == nullptr) return Code::kInvalidArgument;
  *rank = communicator->settings().rank;
  return Code::kSuccess;
}
Code ncclCommCuDevice(Comm comm, int* device) {
  const auto communicator = Find(comm);
  if (communicator == nullptr) return Code::kInvalidArgument;
  *device = communicator->settings().device;
  return Code::kSuccess;
}

// ------------------------------------------------------------------------------- operations

Code ncclAllReduce(const void* source, void* target, std::size_t count, DataType type,
                   Reduction reduction, Comm comm, Stream stream) {
  return Collective("AllReduce", comm, stream,
                    {Kind::kAllReduce, source, target, count, type, reduction, 0});
}
Code ncclBroadcast(const void* source, void* target, std::size_t count, DataType type, int root,
                   Comm comm, Stream stream) {
  return Collective("Broadcast", comm, stream,
                    {Kind::kBroadcast, source, target, count, type, Reduction::kSum, root});
}
Code ncclBcast(void* memory, std::size_t count, DataType type, int root, Comm comm, Stream stream) {
  return ncclBroadcast(memory, memory, count, type, root, comm, stream);
}
Code ncclReduce(const void* source, void* target, std::size_t count, DataType type,
                Reduction reduction, int root, Comm comm, Stream stream) {
  return Collective("Reduce", comm, stream,
                    {Kind::kReduce, source, target, count, type, reduction, root});
}
Code ncclAllGather(const void* source, void* target, std::size_t count, DataType type, Comm comm,
                   Stream stream) {
  return Collective("AllGather", comm, stream,
                    {Kind::kAllGather, source, target, count, type, Reduction::kSum, 0});
}
Code ncclReduceScatter(const void* source, void* target, std::size_t count, DataType type,
                       Reduction reduction, Comm comm, Stream stream) {
  return Collective("ReduceScatter", comm, stream,
                    {Kind::kReduceScatter, source, target, count, type, reduction, 0});
}
Code ncclSend(const void* source, std::size_t count, DataType type, int peer, Comm comm,
              Stream stream) {
  return Collective("Send", comm, stream,
                    {Kind::kSend, source, nullptr, count, type, Reduction::kSum, peer});
}
Code ncclRecv(void* target, std::size_t count, DataType type, int peer, Comm comm, Stream stream) {
  return Collective("Recv", comm, stream,
                    {Kind::kReceive, nullptr, target, count, type, Reduction::kSum, peer});
}
Code ncclGroupStart() { return StartGroup(); }
Code ncclGroupEnd() { return EndGroup(); }

Code ncclMemAlloc(void** memory, std::size_t bytes) {
  return cudaMalloc(memory, bytes) == comm::cuda::Code::kSuccess ? Code::kSuccess
                                                                 : Code::kUnhandledCudaError;
}
Code ncclMemFree(void* memory) {
  return cudaFree(memory) == comm::cuda::Code::kSuccess ? Code::kSuccess
                                                        : Code::kUnhandledCudaError;
}

// ------------------------------------------------------------------------------- errors

const char* ncclGetErrorString(Code code) {
  switch (code) {
    case Code::kSuccess:
      return "no error";
    case Code::kUnhandledCudaError:
      return "unhandled cuda error (run with NCCL_DEBUG=INFO for details)";
    case Code::kSystemError:
      return "unhandled system error (run with NCCL_DEBUG=INFO for details)";
    case Code::kInternalError:
      return "internal error - please report this issue to the NCCL developers";
    case Code::kInvalidArgument:
      return "invalid argument (run with NCCL_DEBUG=WARN for details)";
    case Code::kInvalidUsage:
      return "invalid usage (run with NCCL_DEBUG=WARN for details)";
    case Code::kRemoteError:
      return "remote process exited or there was a network error";
    case Code::kInProgress:
      return "NCCL operation in progress";
  }
  return "unknown result code";
}
const char* ncclGetLastError(Comm) { return LastWarning(); }

}  // extern "C"
}  // namespace muster::standin
