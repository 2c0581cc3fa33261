#include "launcher/agent/line_cutter.h"

namespace muster::agent {

void LineCutter::Append(std::string_view bytes, const Sink& sink) {
  rest_ += bytes;
  const std::string_view all = rest_;
  std::size_t begin = 0;
  while (begin < all.size()) {
    const std::string_view window = all.substr(begin, kLineBytesMax);
    const std::size_t end = window.find_first_of("\r\n");
    if (end == std::string_view::npos) {
      if (window.size() < kLineBytesMax) break;
      sink(window, window, LineEnd::kCut);
      begin += window.size();
      continue;
    }
    std::size_t size = end + 1;
    LineEnd kind = LineEnd::kNewline;
    if (window[end] == '\r') {
      const std::size_t after = begin + size;
      if (after == all.size()) break;  // a "\n" may follow
      kind = all[after] == '\n' ? LineEnd::kNewline : LineEnd::kReturn;
      if (kind == LineEnd::kNewline) ++size;
    }
    sink(window.substr(0, end), all.substr(begin, size), kind);
    begin += size;
  }
  rest_.erase(0, begin);
}

void LineCutter::Flush(const Sink& sink) {
  if (rest_.empty()) return;
  const bool returned = rest_.back() == '\r';
  const std::string_view raw = rest_;
  sink(returned ? raw.substr(0, raw.size() - 1) : raw, raw,
       returned ? LineEnd::kReturn : LineEnd::kCut);
  rest_.clear();
}

}  // namespace muster::agent
