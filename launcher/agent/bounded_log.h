#pragma once

// A log file that cannot fill a disk: the first bytes stay, then only the newest ones.
//
// The head is PATH itself. What comes after it goes into PATH.part-00001, -00002 ..., of which the
// newest few are kept: no byte is ever moved, so it works on any file system. Pieces that are
// appended together stay together. Not thread-safe: one writer thread owns it.

#include <cstdint>
#include <string>
#include <string_view>

#include "common/status.h"
#include "launcher/agent/files.h"

namespace muster::agent {

struct LogLimits {
  std::uint64_t head_bytes = 8U << 20U;
  std::uint64_t part_bytes = 7U << 20U;
  // With the newest, which is being filled: at most 8 + 8 * 7 = 64 MiB a log.
  std::uint32_t parts = 8;
};

class BoundedLog {
 public:
  explicit BoundedLog(std::string path, LogLimits limits = {});
  // Opens at the first call. After an error the next call tries again.
  Status Append(std::string_view bytes);
  const std::string& path() const { return path_; }

 private:
  std::string PartPath(std::uint64_t part) const;
  Status OpenNext();

  const std::string path_;
  const LogLimits limits_;
  Descriptor file_;
  std::uint64_t part_ = 0;  // 0: the head
  std::uint64_t written_ = 0;
};

}  // namespace muster::agent
