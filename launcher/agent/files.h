#pragma once

// Small file work of the agent: descriptors that close themselves, private folders, short files.

#include <sys/types.h>

#include <string>
#include <utility>

#include "common/status.h"

namespace muster::agent {

class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int value) : value_(value) {}
  ~Descriptor() { Close(); }
  Descriptor(Descriptor&& other) noexcept : value_(std::exchange(other.value_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    if (this != &other) {
      Close();
      value_ = std::exchange(other.value_, -1);
    }
    return *this;
  }
  int get() const { return value_; }
  bool valid() const { return value_ >= 0; }
  int Release() { return std::exchange(value_, -1); }
  void Close();

 private:
  int value_ = -1;
};

// At most `limit` bytes of a file; NotFound and the like with the path.
Result<std::string> ReadSmallFile(const std::string& path, std::size_t limit = 1U << 20U);
// Makes the folder and its parents with mode 0700.
Status MakeFolders(const std::string& path);
// Makes the folder (0700) if it is not there; refuses a link, another owner, or wider rights: a
// stranger may have made it first in a folder that all can write to.
Status MakePrivateFolder(const std::string& path);
// Writes all bytes to a descriptor; retries on EINTR.
Status WriteAll(int descriptor, std::string_view bytes);
// Copies the files of a folder whose names begin with `prefix` into `to`, which is made. What
// cannot be copied is left out.
void CopyFiles(const std::string& from, const std::string& prefix, const std::string& to);
// 64-bit FNV-1a in hex: a short name for a long key, not for secrets.
std::string ShortHash(std::string_view text);

}  // namespace muster::agent
