#include "trainer_runtime/comm/nccl_api.h"

#include <sys/stat.h>

#include <map>
#include <memory>
#include <mutex>

#include "common/text.h"
#include "trainer_runtime/comm/cuda_shared_library.h"

namespace muster::comm::nccl {
namespace {

constexpr const char* kFile = "libnccl.so.2";
constexpr const char* kAdvice =
    "install NCCL (libnccl.so.2), add its folder to LD_LIBRARY_PATH, or name it with "
    "--nccl-library; without a GPU use --backend gloo";
// Configurations, and with them communicators that do not block, came with 2.14.
constexpr int kVersionMin = 21400;

Status BindAll(const SharedLibrary& library, Api* api) {
  api->path = library.path();
  MUSTER_RETURN_IF_ERROR(library.Bind("ncclGetVersion", &api->get_version));
  MUSTER_RETURN_IF_ERROR(library.Bind("ncclGetUniqueId", &api->get_unique_id));
  MUSTER_RETURN_IF_ERROR(library.Bind("ncclCommInitRankConfig", &api->comm_init_rank_config));
  MUSTER_RETURN_IF_ERROR(library.Bind("ncclCommFinalize", &api->comm_finalize));
  MUSTER_RETURN_IF_ERROR(library.Bind("ncclCommDestroy", &api->comm_destroy));
  MUSTER_RETURN_IF_ERROR(library.Bind("ncclCommAbort", &api->comm_abort));
  library.BindIfThere("ncclCommRevoke", &api->comm_revoke);
  MUSTER_RETURN_IF_ERROR(library.Bind("ncclCommGetAsyncError", &api->comm_get_async_error));
  MUSTER_RETURN_IF_ERROR(library.Bind("ncclGetErrorString", &api->get_error_string));
  MUSTER_RETURN_IF_ERROR(library.Bind("ncclGetLastError", &api->get_last_error));
  MUSTER_RETURN_IF_ERROR(library.Bind("ncclAllReduce", &api->all_reduce));
  MUSTER_RETURN_IF_ERROR(library.Bind("ncclBroadcast", &api->broadcast));
  return library.Bind("ncclAllGather", &api->all_gather);
}

Status CheckVersion(Api* api) {
  if (api->get_version(&api->version) != Code::kSuccess || api->version < kVersionMin) {
    return FailedPrecondition(Concat("NCCL at ", api->path, " is version ",
                                     VersionText(api->version), "; ", VersionText(kVersionMin),
                                     " or later is needed"));
  }
  return OkStatus();
}

}  // namespace

std::string CodeName(Code code) {
  switch (code) {
    case Code::kSuccess:
      return "ncclSuccess";
    case Code::kUnhandledCudaError:
      return "ncclUnhandledCudaError";
    case Code::kSystemError:
      return "ncclSystemError";
    case Code::kInternalError:
      return "ncclInternalError";
    case Code::kInvalidArgument:
      return "ncclInvalidArgument";
    case Code::kInvalidUsage:
      return "ncclInvalidUsage";
    case Code::kRemoteError:
      return "ncclRemoteError";
    case Code::kInProgress:
      return "ncclInProgress";
  }
  return Concat("NCCL's result ", static_cast<unsigned>(code));
}

std::string VersionText(int version) {
  // Up to 2.8 the parts were thousands, hundreds and ones.
  return version < 10000 ? Concat(version / 1000, ".", version / 100 % 10, ".", version % 100)
                         : Concat(version / 10000, ".", version / 100 % 100, ".", version % 100);
}

std::vector<std::string> LibraryNames(const std::string& path) {
  struct stat status {};
  if (!path.empty()) {
    if (stat(path.c_str(), &status) != 0 || !S_ISDIR(status.st_mode)) return {path};
    return {Concat(path, "/", kFile)};
  }
  return {kFile, Concat("/usr/local/cuda/lib64/", kFile)};
}

Result<const Api*> Load(const std::string& path) {
  // Never destroyed: threads may still use a table while the process ends.
  static auto* const loaded = new std::map<std::string, std::unique_ptr<const Api>>;
  static auto* const mutex = new std::mutex;
  const std::lock_guard lock(*mutex);
  if (const auto place = loaded->find(path); place != loaded->end()) return place->second.get();
  MUSTER_ASSIGN_OR_RETURN(const SharedLibrary library,
                          SharedLibrary::Open("NCCL", LibraryNames(path), kAdvice));
  auto api = std::make_unique<Api>();
  MUSTER_RETURN_IF_ERROR(BindAll(library, api.get()));
  MUSTER_RETURN_IF_ERROR(CheckVersion(api.get()));
  const Api* const result = api.get();
  loaded->emplace(path, std::move(api));
  return result;
}

}  // namespace muster::comm::nccl
