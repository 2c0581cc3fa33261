#pragma once

// SharedLibrary: a library of NVIDIA's loaded at run time, so that our programs build and start
// where there is none.
//
// Once loaded it stays for the life of the process: neither CUDA nor NCCL can be unloaded safely.
// Errors say which names were tried and what the loader answered. Thread-safe. Used by cuda_api.cc
// and nccl_api.cc.

#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"

namespace muster::comm {

class SharedLibrary {
 public:
  // The first of `names` that loads; a name without a slash goes through the loader's own search.
  // `what` ("NCCL") and `advice` are for the message when none does: NotFound if nothing is there,
  // FailedPrecondition if something is there and does not load.
  static Result<SharedLibrary> Open(std::string_view what, const std::vector<std::string>& names,
                                    std::string_view advice);

  // The file it came from.
  const std::string& path() const { return path_; }

  // FailedPrecondition names the symbol and the file.
  template <typename Function>
  Status Bind(const char* symbol, Function** target) const {
    void* address = Find(symbol);
    if (address == nullptr) return Missing(symbol);
    *target = reinterpret_cast<Function*>(address);
    return OkStatus();
  }
  // Null if it is not there.
  template <typename Function>
  void BindIfThere(const char* symbol, Function** target) const {
    *target = reinterpret_cast<Function*>(Find(symbol));
  }

 private:
  SharedLibrary(std::string what, void* handle);
  void* Find(const char* symbol) const;
  Status Missing(const char* symbol) const;

  std::string what_, path_;
  void* handle_;
};

}  // namespace muster::comm
