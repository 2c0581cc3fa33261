#include "trainer_runtime/comm/cuda_shared_library.h"

#include <dlfcn.h>
#include <link.h>
#include <unistd.h>

#include "common/text.h"

namespace muster::comm {
namespace {

std::string LoaderError() {
  const char* text = dlerror();
  return text != nullptr ? text : "unknown reason";
}

bool IsThere(const std::string& name) {
  return name.find('/') != std::string::npos && access(name.c_str(), F_OK) == 0;
}

}  // namespace

SharedLibrary::SharedLibrary(std::string what, void* handle)
    : what_(std::move(what)), handle_(handle) {
  link_map* map = nullptr;
  if (dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map != nullptr) path_ = map->l_name;
}

Result<SharedLibrary> SharedLibrary::Open(std::string_view what,
                                          const std::vector<std::string>& names,
                                          std::string_view advice) {
  std::string tried;
  bool there = false;
  for (const std::string& name : names) {
    if (void* handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) {
      return SharedLibrary(std::string(what), handle);
    }
    there = there || IsThere(name);
    tried += Concat("\n  ", name, ": ", LoaderError());
  }
  const std::string text =
      Concat("cannot load ", what, "; ", advice, ". Tried in this order:", tried);
  return there ? FailedPrecondition(text) : NotFound(text);
}

void* SharedLibrary::Find(const char* symbol) const { return dlsym(handle_, symbol); }

Status SharedLibrary::Missing(const char* symbol) const {
  return FailedPrecondition(Concat(what_, " at ", path_, " has no symbol ", symbol,
                                   ": it is too old, or another library of this name. Load a newer "
                                   "one"));
}

}  // namespace muster::comm
