#include "trainer_runtime/comm/cuda_api.h"

#include <sys/stat.h>

#include <map>
#include <memory>
#include <mutex>

#include "common/text.h"
#include "trainer_runtime/comm/cuda_shared_library.h"

namespace muster::comm::cuda {
namespace {

constexpr const char* kAdvice =
    "install CUDA's runtime (libcudart.so.13 or .12) and add its folder to LD_LIBRARY_PATH, or put "
    "it beside the NCCL that --nccl-library names; without a GPU use --backend gloo";

Status BindAll(const SharedLibrary& library, Api* api) {
  api->path = library.path();
  MUSTER_RETURN_IF_ERROR(library.Bind("cudaGetDeviceCount", &api->get_device_count));
  MUSTER_RETURN_IF_ERROR(library.Bind("cudaSetDevice", &api->set_device));
  MUSTER_RETURN_IF_ERROR(library.Bind("cudaDeviceGetPCIBusId", &api->device_get_pci_bus_id));
  MUSTER_RETURN_IF_ERROR(library.Bind("cudaRuntimeGetVersion", &api->runtime_get_version));
  MUSTER_RETURN_IF_ERROR(library.Bind("cudaDriverGetVersion", &api->driver_get_version));
  MUSTER_RETURN_IF_ERROR(library.Bind("cudaMalloc", &api->allocate));
  MUSTER_RETURN_IF_ERROR(library.Bind("cudaFree", &api->free));
  MUSTER_RETURN_IF_ERROR(library.Bind("cudaMemcpyAsync", &api->memcpy_async));
  MUSTER_RETURN_IF_ERROR(library.Bind("cudaStreamCreateWithFlags", &api->stream_create_with_flags));
  MUSTER_RETURN_IF_ERROR(library.Bind("cudaStreamDestroy", &api->stream_destroy));
  MUSTER_RETURN_IF_ERROR(library.Bind("cudaEventCreateWithFlags", &api->event_create_with_flags));
  MUSTER_RETURN_IF_ERROR(library.Bind("cudaEventRecord", &api->event_record));
  MUSTER_RETURN_IF_ERROR(library.Bind("cudaEventQuery", &api->event_query));
  MUSTER_RETURN_IF_ERROR(library.Bind("cudaEventDestroy", &api->event_destroy));
  MUSTER_RETURN_IF_ERROR(library.Bind("cudaGetLastError", &api->get_last_error));
  MUSTER_RETURN_IF_ERROR(library.Bind("cudaGetErrorName", &api->get_error_name));
  return library.Bind("cudaGetErrorString", &api->get_error_string);
}

}  // namespace

Status Api::Check(Code code, const std::string& doing) const {
  if (code == Code::kSuccess) return OkStatus();
  get_last_error();  // else the next call that looks at it fails for this one's reason
  const std::string text =
      Concat("cannot ", doing, ": ", get_error_string(code), " (", get_error_name(code), ")");
  if (code == Code::kMemoryAllocation) return ResourceExhausted(text);
  if (code == Code::kNoDevice || code == Code::kInsufficientDriver) {
    return FailedPrecondition(
        Concat(text, ". Look at nvidia-smi on this node, or use --backend gloo"));
  }
  return Internal(text);
}

std::vector<std::string> LibraryNames(const std::string& path) {
  const std::vector<std::string> files = {"libcudart.so.13", "libcudart.so.12"};
  std::vector<std::string> names;
  struct stat status {};
  if (!path.empty()) {
    if (stat(path.c_str(), &status) != 0 || !S_ISDIR(status.st_mode)) return {path};
    for (const std::string& file : files) names.push_back(Concat(path, "/", file));
    return names;
  }
  names = files;
  for (const std::string& file : files) names.push_back(Concat("/usr/local/cuda/lib64/", file));
  return names;
}

Result<const Api*> Load(const std::string& path) {
  // Never destroyed: threads may still use a table while the process ends.
  static auto* const loaded = new std::map<std::string, std::unique_ptr<const Api>>;
  static auto* const mutex = new std::mutex;
  const std::lock_guard lock(*mutex);
  if (const auto place = loaded->find(path); place != loaded->end()) return place->second.get();
  MUSTER_ASSIGN_OR_RETURN(const SharedLibrary library,
                          SharedLibrary::Open("CUDA's runtime", LibraryNames(path), kAdvice));
  auto api = std::make_unique<Api>();
  MUSTER_RETURN_IF_ERROR(BindAll(library, api.get()));
  const Api* const result = api.get();
  loaded->emplace(path, std::move(api));
  return result;
}

}  // namespace muster::comm::cuda
