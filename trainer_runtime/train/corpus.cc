#include "trainer_runtime/train/corpus.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "common/check.h"
#include "common/text.h"

namespace muster::training {

namespace {

// Enough of both ends of a file to tell corpora apart without reading terabytes.
constexpr std::size_t kFingerprintBytes = std::size_t{64} << 10;

}  // namespace

Corpus::Mapping::Mapping(Mapping&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

Corpus::Mapping& Corpus::Mapping::operator=(Mapping&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

Corpus::Mapping::~Mapping() {
  if (data_ != nullptr) munmap(const_cast<std::uint8_t*>(data_), bytes_);
}

Result<Corpus::Mapping> Corpus::Map(const std::string& path) {
  const int descriptor = open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (descriptor < 0) return FromErrno(errno, "cannot open corpus " + path);
  struct stat info {};
  Status status;
  Mapping mapping;
  if (fstat(descriptor, &info) != 0) {
    status = FromErrno(errno, "cannot look at corpus " + path);
  } else if (!S_ISREG(info.st_mode)) {
    status = InvalidArgument(Concat("corpus ", path, " is not a regular file"));
  } else if (info.st_size > 0) {
    const auto bytes = static_cast<std::size_t>(info.st_size);
    void* data = mmap(nullptr, bytes, PROT_READ, MAP_SHARED, descriptor, 0);
    if (data == MAP_FAILED) {
      status = FromErrno(errno, "cannot map corpus " + path);
    } else {
      // Windows come in random order: reading ahead would bring what nobody asked for.
      (void)madvise(data, bytes, MADV_RANDOM);
      mapping = Mapping(static_cast<const std::uint8_t*>(data), bytes);
    }
  }
  close(descriptor);
  if (!status.ok()) return status;
  return mapping;
}

Result<Corpus> Corpus::Open(const std::vector<std::string>& paths, std::size_t context) {
  if (paths.empty()) return InvalidArgument("a corpus needs at least one file");
  if (context < 1) return InvalidArgument("a corpus is cut for a context of at least 1 byte");
  Corpus corpus;
  corpus.window_bytes_ = context + 1;
  std::uint64_t bytes = 0;
  for (const std::string& path : paths) {
    MUSTER_ASSIGN_OR_RETURN(Mapping mapping, Map(path));
    const std::uint64_t size = mapping.bytes().size();
    corpus.files_.push_back({std::move(mapping), corpus.windows_});
    corpus.windows_ += size / corpus.window_bytes_;
    bytes += size;
  }
  if (corpus.windows_ == 0) {
    return InvalidArgument(Concat("the corpus of ", paths.size(), " files beginning with ",
                                  paths.front(), " has ", bytes, " bytes, not one window of ",
                                  corpus.window_bytes_, "; use a shorter context or more text"));
  }
  corpus.SetFingerprint();
  return corpus;
}

void Corpus::SetFingerprint() {
  checkpoint::DigestStream digest;
  auto add = [&](std::uint64_t number) {
    digest.Update(std::as_bytes(std::span<const std::uint64_t>(&number, 1)));
  };
  add(window_bytes_);
  for (const File& file : files_) {
    const auto bytes = std::as_bytes(file.mapping.bytes());
    add(bytes.size());
    const std::size_t edge = std::min(kFingerprintBytes, bytes.size());
    digest.Update(bytes.first(edge));
    digest.Update(bytes.last(edge));
  }
  fingerprint_ = digest.Value();
}

std::span<const std::uint8_t> Corpus::Window(std::uint64_t index) const {
  MUSTER_CHECK(index < windows_, "a window outside the corpus");
  const auto after = std::upper_bound(
      files_.begin(), files_.end(), index,
      [](std::uint64_t wanted, const File& file) { return wanted < file.first_window; });
  const File& file = *std::prev(after);
  return file.mapping.bytes().subspan(
      static_cast<std::size_t>(index - file.first_window) * window_bytes_, window_bytes_);
}

}  // namespace muster::training
