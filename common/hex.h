#pragma once

// Bytes as lower-case hex and back, and the comparison of secrets. Pure.

#include <string>
#include <string_view>

#include "common/status.h"

namespace muster {

std::string HexEncode(std::string_view bytes);
// Both cases are read. The error names a position and never repeats the text: it may be a secret.
Result<std::string> HexDecode(std::string_view text);
// Takes a time that depends on the lengths alone, so that a stranger cannot guess byte by byte.
bool SecretsEqual(std::string_view a, std::string_view b);

}  // namespace muster
