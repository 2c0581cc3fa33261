#pragma once

// A corpus of bytes: one file or several, mapped into memory, cut into windows.
//
// A window is context + 1 bytes: position t of it predicts byte t + 1. Windows do not overlap and
// do not cross from one file into the next; the rest of a file that fills no window is left out.
// Reading is thread-safe. A file that is cut short while it is mapped kills the process (SIGBUS):
// corpora are replaced by a new name, not overwritten.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/digest.h"
#include "common/status.h"

namespace muster::training {

class Corpus {
 public:
  // NotFound, PermissionDenied: a file that cannot be read, by name. InvalidArgument: no files, a
  // context of 0, a path that is no regular file, or not one whole window in all of them.
  static Result<Corpus> Open(const std::vector<std::string>& paths, std::size_t context);

  Corpus(Corpus&&) noexcept = default;
  Corpus& operator=(Corpus&&) noexcept = default;

  std::size_t context() const { return window_bytes_ - 1; }
  std::uint64_t windows() const { return windows_; }
  // context() + 1 bytes. REQUIRES index < windows().
  std::span<const std::uint8_t> Window(std::uint64_t index) const;

  // Of the files' sizes, in order, some of their contents, and the context: another corpus, or the
  // files in another order, would give other samples for the same cursor.
  const checkpoint::Digest& fingerprint() const { return fingerprint_; }

 private:
  class Mapping {
   public:
    Mapping() = default;
    Mapping(const std::uint8_t* data, std::size_t bytes) : data_(data), bytes_(bytes) {}
    Mapping(Mapping&& other) noexcept;
    Mapping& operator=(Mapping&& other) noexcept;
    ~Mapping();
    std::span<const std::uint8_t> bytes() const { return {data_, bytes_}; }

   private:
    const std::uint8_t* data_ = nullptr;
    std::size_t bytes_ = 0;
  };
  struct File {
    Mapping mapping;
    std::uint64_t first_window;
  };

  Corpus() = default;
  static Result<Mapping> Map(const std::string& path);
  void SetFingerprint();

  std::size_t window_bytes_ = 0;
  std::uint64_t windows_ = 0;
  std::vector<File> files_;
  checkpoint::Digest fingerprint_;
};

}  // namespace muster::training
