#pragma once

// FileOperations: everything that changes the file system while an entry is written or removed. The
// one seam where tests let a disk fail or a machine lose power.
//
// Errors name the path and carry the system's reason; ENOSPC and EDQUOT are ResourceExhausted.
// SystemFiles() is thread-safe.

#include <cstddef>
#include <span>
#include <string>

#include "common/status.h"

namespace muster::checkpoint {

class FileOperations {
 public:
  virtual ~FileOperations() = default;

  // A new file open for writing; AlreadyExists if there is one. The descriptor is the caller's.
  virtual Result<int> CreateFile(const std::string& path) = 0;
  // Writes a beginning of `bytes` and returns its length, at least 1.
  virtual Result<std::size_t> Write(int descriptor, const std::string& path,
                                    std::span<const std::byte> bytes) = 0;
  // Returns when the file's contents are durable. After an error they may be lost: do not retry.
  virtual Status SyncFile(int descriptor, const std::string& path) = 0;
  virtual Status CloseFile(int descriptor, const std::string& path) = 0;

  virtual Status MakeFolder(const std::string& path) = 0;
  // Returns when the names in the folder are durable.
  virtual Status SyncFolder(const std::string& path) = 0;
  // AlreadyExists when `to` is a folder that is not empty.
  virtual Status Rename(const std::string& from, const std::string& to) = 0;
  virtual Status RemoveFile(const std::string& path) = 0;
  virtual Status RemoveFolder(const std::string& path) = 0;
};

FileOperations& SystemFiles();

}  // namespace muster::checkpoint
