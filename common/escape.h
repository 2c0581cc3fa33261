#pragma once

// Bytes made visible in text that people read. Pure.

#include <string>
#include <string_view>

namespace muster {

// A byte that would steer a terminal.
constexpr bool IsControl(unsigned char byte) { return byte < 0x20 || byte == 0x7f; }
// The text with each byte for which `chosen` holds as \xNN.
std::string EscapeBytes(std::string_view text, bool (*chosen)(unsigned char));

}  // namespace muster
