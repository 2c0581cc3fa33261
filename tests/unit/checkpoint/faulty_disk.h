#pragma once

// A disk that fails at a chosen operation, and a machine that loses power there.
//
// It knows what was made durable. After the power is lost, what was not is gone: half of each file
// that was not synced, and, in the worse of two worlds, every name and rename whose folder was not.

#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/file_operations.h"

namespace muster::checkpoint {

enum class Fault {
  kNone,
  kError,       // the operation fails once, as on a full disk
  kShortWrite,  // a write takes one byte only
  kPowerCut,    // nothing has any effect from here on
};

class FaultyDisk final : public FileOperations {
 public:
  FaultyDisk(Fault fault, std::size_t at) : fault_(fault), at_(at) {}

  // Whether the chosen operation was reached.
  bool reached() const { return operations_ > at_; }

  Result<int> CreateFile(const std::string& path) override {
    MUSTER_RETURN_IF_ERROR(Next(path));
    auto file = SystemFiles().CreateFile(path);
    if (file.ok()) {
      unsynced_files_.insert(path);
      unsynced_names_.insert(path);
    }
    return file;
  }
  Result<std::size_t> Write(int descriptor, const std::string& path,
                            std::span<const std::byte> bytes) override {
    const std::size_t index = operations_;
    MUSTER_RETURN_IF_ERROR(Next(path));
    if (fault_ == Fault::kShortWrite && index == at_) bytes = bytes.first(1);
    return SystemFiles().Write(descriptor, path, bytes);
  }
  Status SyncFile(int, const std::string& path) override {
    MUSTER_RETURN_IF_ERROR(Next(path));
    unsynced_files_.erase(path);
    return OkStatus();  // our own account says what is durable; the real disk would only be slow
  }
  // Descriptors are closed whatever happens: the machine that died had none left either.
  Status CloseFile(int descriptor, const std::string& path) override {
    const Status fault = Next(path);
    const Status closed = SystemFiles().CloseFile(descriptor, path);
    return fault.ok() ? closed : fault;
  }
  Status MakeFolder(const std::string& path) override {
    MUSTER_RETURN_IF_ERROR(Next(path));
    return SystemFiles().MakeFolder(path);
  }
  Status SyncFolder(const std::string& path) override {
    MUSTER_RETURN_IF_ERROR(Next(path));
    std::erase_if(unsynced_names_, [&](const std::string& name) { return Parent(name) == path; });
    std::erase_if(renames_, [&](const auto& rename) { return Parent(rename.second) == path; });
    return OkStatus();
  }
  Status Rename(const std::string& from, const std::string& to) override {
    MUSTER_RETURN_IF_ERROR(Next(from));
    MUSTER_RETURN_IF_ERROR(SystemFiles().Rename(from, to));
    renames_.emplace_back(from, to);
    Follow(from, to);
    return OkStatus();
  }
  Status RemoveFile(const std::string& path) override {
    MUSTER_RETURN_IF_ERROR(Next(path));
    return SystemFiles().RemoveFile(path);
  }
  Status RemoveFolder(const std::string& path) override {
    MUSTER_RETURN_IF_ERROR(Next(path));
    return SystemFiles().RemoveFolder(path);
  }

  void LosePower(bool names_too) {
    if (names_too) {
      for (auto rename = renames_.rbegin(); rename != renames_.rend(); ++rename) {
        std::error_code ignored;
        std::filesystem::rename(rename->second, rename->first, ignored);
        Follow(rename->second, rename->first);
      }
      for (const std::string& path : unsynced_names_) std::filesystem::remove(path);
    }
    for (const std::string& path : unsynced_files_) {
      if (!std::filesystem::exists(path)) continue;
      std::filesystem::resize_file(path, std::filesystem::file_size(path) / 2);
    }
  }

 private:
  static std::string Parent(const std::string& path) {
    return std::filesystem::path(path).parent_path().string();
  }

  Status Next(const std::string& path) {
    const std::size_t index = operations_++;
    if (fault_ == Fault::kPowerCut && index >= at_) return Unavailable(path + ": no power");
    if (fault_ == Fault::kError && index == at_) return FromErrno(ENOSPC, "injected at " + path);
    return OkStatus();
  }

  // What lies in a renamed folder has new paths.
  void Follow(const std::string& from, const std::string& to) {
    for (std::set<std::string>* paths : {&unsynced_files_, &unsynced_names_}) {
      std::set<std::string> moved;
      for (const std::string& path : *paths) {
        moved.insert(path.starts_with(from + "/") ? to + path.substr(from.size()) : path);
      }
      *paths = std::move(moved);
    }
  }

  const Fault fault_;
  const std::size_t at_;
  std::size_t operations_ = 0;
  std::set<std::string> unsynced_files_, unsynced_names_;
  std::vector<std::pair<std::string, std::string>> renames_;
};

}  // namespace muster::checkpoint
