#include "trainer_runtime/muster_train/corpus.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "common/text.h"
#include "trainer_runtime/models/counter_random.h"

namespace muster::train_program {

Result<Corpus> Corpus::Open(const std::vector<std::string>& files, std::size_t length) {
  Corpus corpus(length);
  for (const std::string& path : files) {
    const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) return FromErrno(errno, Concat("cannot open --data ", Quote(path)));
    struct stat info {};
    void* memory = MAP_FAILED;
    if (fstat(descriptor, &info) == 0 && info.st_size > 0) {
      memory = mmap(nullptr, static_cast<std::size_t>(info.st_size), PROT_READ, MAP_PRIVATE,
                    descriptor, 0);
    }
    const int error = errno;
    close(descriptor);
    if (info.st_size == 0) continue;
    if (memory == MAP_FAILED) return FromErrno(error, Concat("cannot map --data ", Quote(path)));
    Part part;
    part.data = static_cast<const std::uint8_t*>(memory);
    part.bytes = static_cast<std::uint64_t>(info.st_size);
    part.begin = corpus.bytes_;
    corpus.bytes_ += part.bytes;
    corpus.parts_.push_back(part);
  }
  if (corpus.bytes_ < length + 1) {
    return InvalidArgument(Concat("--data has ", corpus.bytes_,
                                  " bytes in all; one window of this "
                                  "model has ",
                                  length + 1));
  }
  return corpus;
}

Corpus::~Corpus() {
  for (const Part& part : parts_) munmap(const_cast<std::uint8_t*>(part.data), part.bytes);
}

Corpus::Corpus(Corpus&& other) noexcept
    : length_(other.length_),
      parts_(std::exchange(other.parts_, {})),
      bytes_(std::exchange(other.bytes_, 0)) {}

void Corpus::Fill(std::uint64_t seed, std::uint64_t step, std::uint64_t first, std::uint64_t count,
                  std::vector<std::int32_t>* tokens) const {
  tokens->resize(count * (length_ + 1));
  auto out = tokens->begin();
  const std::uint64_t starts = bytes_ - length_;
  for (std::uint64_t i = first; i < first + count; ++i) {
    std::uint64_t at = models::Random64(models::Random64(seed, step), i) % starts;
    std::uint64_t left = length_ + 1;
    auto part =
        std::upper_bound(parts_.begin(), parts_.end(), at,
                         [](std::uint64_t value, const Part& p) { return value < p.begin; });
    for (--part; left > 0; ++part) {
      const std::uint64_t offset = at - part->begin;
      const std::uint64_t here = std::min(left, part->bytes - offset);
      out = std::copy_n(part->data + offset, here, out);
      left -= here;
      at += here;
    }
  }
}

}  // namespace muster::train_program
