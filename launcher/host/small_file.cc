#include "launcher/host/small_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "common/text.h"
#include "launcher/agent/files.h"

namespace muster::host {

Status WriteWhole(const std::string& path, std::string_view bytes) {
  const std::string partial = Concat(path, ".", getpid(), ".partial");
  agent::Descriptor file(
      open(partial.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file.valid()) return FromErrno(errno, Concat("cannot write ", partial));
  Status status = agent::WriteAll(file.get(), bytes).With(Concat("cannot write ", partial));
  if (status.ok() && fsync(file.get()) != 0) {
    status = FromErrno(errno, Concat("cannot flush ", partial));
  }
  if (status.ok() && rename(partial.c_str(), path.c_str()) != 0) {
    status = FromErrno(errno, Concat("cannot rename ", partial, " to ", path));
  }
  if (!status.ok()) unlink(partial.c_str());
  return status;
}

}  // namespace muster::host
