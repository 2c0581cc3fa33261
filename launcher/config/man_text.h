#pragma once

// Text in man's own macros (man(7)). Pure; used by what makes the manual pages.

#include <string>
#include <string_view>

namespace muster::config {

// Prose for a page: what man would read as a macro is escaped, what stands in backquotes is bold.
std::string ManText(std::string_view text);
// One entry of a list: the term in bold, then its explanation (already man's text).
std::string ManEntry(std::string_view term, std::string_view explanation);

}  // namespace muster::config
