#include "common/escape.h"

namespace muster {

std::string EscapeBytes(std::string_view text, bool (*chosen)(unsigned char)) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (chosen(byte)) {
      out += "\\x";
      out += kDigits[byte >> 4U];
      out += kDigits[byte & 15U];
    } else {
      out += c;
    }
  }
  return out;
}

}  // namespace muster
