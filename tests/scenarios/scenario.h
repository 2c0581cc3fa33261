#pragma once

// Plays one scenario text to a real machine. README.md describes the language.

#include <string>
#include <string_view>

namespace muster::scenario {

// Empty if every expectation held, else what was wrong, with the line.
std::string Play(std::string_view text);

}  // namespace muster::scenario
