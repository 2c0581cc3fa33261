#pragma once

// A stream of bytes cut into lines: "\n" ends one, and so does "\r" (progress bars), together they
// end one. A line longer than kLineBytesMax is cut into pieces. Pure.

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace muster::agent {

// Longer lines are data, not text; and a pipe must not fill memory.
inline constexpr std::size_t kLineBytesMax = 64U << 10U;

enum class LineEnd { kNewline, kReturn, kCut };

class LineCutter {
 public:
  // `text` without its end; `raw` with it, so that all raw pieces together are the stream.
  using Sink = std::function<void(std::string_view text, std::string_view raw, LineEnd end)>;

  void Append(std::string_view bytes, const Sink& sink);
  // The last line, if it has no end.
  void Flush(const Sink& sink);

 private:
  std::string rest_;
};

}  // namespace muster::agent
