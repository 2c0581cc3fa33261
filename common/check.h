#pragma once

// Checks for programmer errors. They stay on in release builds: a machine that has left its own
// rules must stop at once and say which sentence was broken, not go on with a world it no longer
// understands.

#include <string_view>

namespace muster {

// Prints "file:line: check failed: condition: message" to stderr and aborts.
[[noreturn]] void CheckFailed(const char* file, int line, const char* condition,
                              std::string_view message) noexcept;

}  // namespace muster

// Use for what can only be false through a mistake in this program; for everything that the outside
// can cause, return a Status.
#define MUSTER_CHECK(condition, message)                                \
  do {                                                                  \
    if (!(condition)) [[unlikely]] {                                    \
      ::muster::CheckFailed(__FILE__, __LINE__, #condition, (message)); \
    }                                                                   \
  } while (false)
