#include "launcher/agent/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <filesystem>

#include "common/text.h"

namespace muster::agent {

void Descriptor::Close() {
  if (value_ >= 0) close(value_);
  value_ = -1;
}

Result<std::string> ReadSmallFile(const std::string& path, std::size_t limit) {
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.valid()) return FromErrno(errno, Concat("cannot open ", path));
  std::string text;
  std::array<char, 16384> buffer;
  while (text.size() < limit) {
    const ssize_t count = read(file.get(), buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return FromErrno(errno, Concat("cannot read ", path));
    if (count == 0) break;
    text.append(buffer.data(), static_cast<std::size_t>(count));
  }
  if (text.size() > limit) text.resize(limit);
  return text;
}

Status MakeFolders(const std::string& path) {
  for (std::size_t at = path.find('/', 1); true; at = path.find('/', at + 1)) {
    const std::string part = path.substr(0, at);
    if (mkdir(part.c_str(), 0700) != 0 && errno != EEXIST) {
      const int error = errno;
      struct stat facts {};
      if (stat(part.c_str(), &facts) != 0 || !S_ISDIR(facts.st_mode)) {
        return FromErrno(error, Concat("cannot make folder ", part));
      }
    }
    if (at == std::string::npos) return OkStatus();
  }
}

Status MakePrivateFolder(const std::string& path) {
  if (mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) {
    return FromErrno(errno, Concat("cannot make folder ", path));
  }
  struct stat facts {};
  if (lstat(path.c_str(), &facts) != 0) return FromErrno(errno, Concat("cannot look at ", path));
  if (!S_ISDIR(facts.st_mode) || facts.st_uid != geteuid() || (facts.st_mode & 0077U) != 0) {
    return PermissionDenied(Concat(path, " is not a folder of uid ", geteuid(),
                                   " alone (mode 0700); somebody else made it first: remove it, or "
                                   "choose another place with --local-dir"));
  }
  return OkStatus();
}

Status WriteAll(int descriptor, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = write(descriptor, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return FromErrno(errno, "cannot write");
    bytes.remove_prefix(static_cast<std::size_t>(count));
  }
  return OkStatus();
}

void CopyFiles(const std::string& from, const std::string& prefix, const std::string& to) {
  namespace fs = std::filesystem;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(from, error)) {
    const std::string name = entry.path().filename();
    if (!name.starts_with(prefix) || !MakeFolders(to).ok()) continue;
    fs::copy_file(entry.path(), to + "/" + name, fs::copy_options::overwrite_existing, error);
  }
}

std::string ShortHash(std::string_view text) {
  std::uint64_t hash = 14695981039346656037U;
  for (const char byte : text) {
    hash = (hash ^ static_cast<unsigned char>(byte)) * 1099511628211U;
  }
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  for (int shift = 60; shift >= 0; shift -= 4) {
    out += kDigits[(hash >> static_cast<unsigned>(shift)) & 15U];
  }
  return out;
}

}  // namespace muster::agent
