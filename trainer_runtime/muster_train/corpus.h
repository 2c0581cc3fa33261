#pragma once

// Corpus: the training text as bytes, and the windows of each step.
//
// Window i of step s is a pure function of (seed, s, i): a step that is repeated, on whatever rank,
// sees the same data. Files are mapped, not read. Thread-safe once open.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/status.h"

namespace muster::train_program {

class Corpus {
 public:
  // NotFound, or InvalidArgument if all together are shorter than a window of `length` + 1 bytes.
  static Result<Corpus> Open(const std::vector<std::string>& files, std::size_t length);
  ~Corpus();
  Corpus(Corpus&& other) noexcept;
  Corpus& operator=(Corpus&&) = delete;

  std::uint64_t bytes() const { return bytes_; }

  // Windows [first, first + count) of the step's batch, each of length + 1 tokens, into `tokens`.
  void Fill(std::uint64_t seed, std::uint64_t step, std::uint64_t first, std::uint64_t count,
            std::vector<std::int32_t>* tokens) const;

 private:
  struct Part {
    const std::uint8_t* data = nullptr;
    std::uint64_t bytes = 0, begin = 0;  // of all parts before
  };
  explicit Corpus(std::size_t length) : length_(length) {}

  const std::size_t length_;
  std::vector<Part> parts_;
  std::uint64_t bytes_ = 0;
};

}  // namespace muster::train_program
