#include "spank_plugin/options.h"

#include <cctype>

namespace muster::spank {
namespace {

// Splits at commas that no backslash protects.
std::vector<std::string> SplitItems(std::string_view text) {
  std::vector<std::string> items(1);
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 1 < text.size() && text[i + 1] == ',') {
      items.back() += ',';
      ++i;
    } else if (text[i] == ',') {
      items.emplace_back();
    } else {
      items.back() += text[i];
    }
  }
  return items;
}

bool IsName(std::string_view name) {
  if (name.empty() || name.front() == '-') return false;
  for (char letter : name) {
    if (!std::islower(static_cast<unsigned char>(letter)) &&
        !std::isdigit(static_cast<unsigned char>(letter)) && letter != '-') {
      return false;
    }
  }
  return true;
}

}  // namespace

Wanted ParseOptions(std::string_view text) {
  Wanted wanted;
  if (text.empty() || text == "0") return wanted;
  wanted.on = true;
  if (text == "1") return wanted;
  for (const std::string& item : SplitItems(text)) {
    std::string_view name = std::string_view(item).substr(0, item.find('='));
    if (!IsName(name)) {
      wanted.problem = "--muster=" + std::string(text) + ": \"" + item +
                       "\" is not an option; give a list such as name=exp1,lease=2s";
      return wanted;
    }
    wanted.arguments.push_back("--" + item);
  }
  return wanted;
}

}  // namespace muster::spank
