#include "launcher/config/man_text.h"

#include <cstddef>

#include "common/text.h"

namespace muster::config {
namespace {

// What readers of such pages are used to, and what mandoc asks for.
constexpr std::size_t kColumns = 78;

// Lines that are too long are broken at a blank, but never before what would begin a request.
std::string Broken(std::string text) {
  std::size_t start = 0;
  std::size_t blank = std::string::npos;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\n') {
      start = i + 1;
      blank = std::string::npos;
    } else if (text[i] == ' ') {
      const char next = i + 1 < text.size() ? text[i + 1] : '.';
      if (next != '.' && next != '\'' && next != ' ') blank = i;
    }
    if (i - start >= kColumns && blank != std::string::npos) {
      text[blank] = '\n';
      start = blank + 1;
      blank = std::string::npos;
    }
  }
  return text;
}

}  // namespace

std::string ManText(std::string_view text) {
  std::string out;
  // At the beginning of a line these two begin a request.
  if (text.starts_with('.') || text.starts_with('\'')) out += "\\&";
  bool bold = false;
  for (const char c : text) {
    switch (c) {
      case '\\':
        out += "\\e";
        break;
      case '-':
        out += "\\-";
        break;
      case '~':
        out += "\\(ti";
        break;
      case '^':
        out += "\\(ha";
        break;
      case '`':
        bold = !bold;
        out += bold ? "\\fB" : "\\fR";
        break;
      default:
        out += c;
    }
  }
  return Broken(bold ? out + "\\fR" : out);
}

std::string ManEntry(std::string_view term, std::string_view explanation) {
  return Concat(".TP\n.B ", ManText(term), "\n", explanation, "\n");
}

}  // namespace muster::config
