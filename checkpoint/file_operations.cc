#include "checkpoint/file_operations.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "common/text.h"

namespace muster::checkpoint {

namespace {

// The user's umask takes away what others may not read.
constexpr mode_t kFileMode = 0666;
constexpr mode_t kFolderMode = 0777;

Status Failed(std::string_view what, const std::string& path) {
  const int number = errno;
  return FromErrno(number, Concat(what, " ", path));
}

class System final : public FileOperations {
 public:
  Result<int> CreateFile(const std::string& path) override {
    const int descriptor =
        open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, kFileMode);
    if (descriptor < 0) return Failed("cannot create", path);
    return descriptor;
  }

  Result<std::size_t> Write(int descriptor, const std::string& path,
                            std::span<const std::byte> bytes) override {
    ssize_t written;
    do {
      written = write(descriptor, bytes.data(), bytes.size());
    } while (written < 0 && errno == EINTR);
    if (written < 0) return Failed("cannot write to", path);
    if (written == 0) return Unavailable(Concat("cannot write to ", path, ": nothing was taken"));
    return static_cast<std::size_t>(written);
  }

  Status SyncFile(int descriptor, const std::string& path) override {
    return fsync(descriptor) == 0 ? OkStatus() : Failed("cannot make durable", path);
  }

  Status CloseFile(int descriptor, const std::string& path) override {
    return close(descriptor) == 0 ? OkStatus() : Failed("cannot close", path);
  }

  Status MakeFolder(const std::string& path) override {
    return mkdir(path.c_str(), kFolderMode) == 0 ? OkStatus() : Failed("cannot make folder", path);
  }

  Status SyncFolder(const std::string& path) override {
    const int descriptor = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (descriptor < 0) return Failed("cannot open folder", path);
    const Status status =
        fsync(descriptor) == 0 ? OkStatus() : Failed("cannot make durable the folder", path);
    close(descriptor);
    return status;
  }

  Status Rename(const std::string& from, const std::string& to) override {
    if (rename(from.c_str(), to.c_str()) == 0) return OkStatus();
    const int number = errno == ENOTEMPTY ? EEXIST : errno;
    return FromErrno(number, Concat("cannot rename ", from, " to ", to));
  }

  Status RemoveFile(const std::string& path) override {
    return unlink(path.c_str()) == 0 ? OkStatus() : Failed("cannot remove", path);
  }

  Status RemoveFolder(const std::string& path) override {
    return rmdir(path.c_str()) == 0 ? OkStatus() : Failed("cannot remove folder", path);
  }
};

}  // namespace

FileOperations& SystemFiles() {
  static System system;
  return system;
}

}  // namespace muster::checkpoint
