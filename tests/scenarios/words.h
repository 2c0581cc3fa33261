#pragma once

// Reads one line of a scenario into words, and says what is wrong with it. README.md has the
// language.

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "common/text.h"
#include "rendezvousd/protocol/messages.h"

namespace muster::scenario {

// What ends a scenario; caught by Play alone.
struct Failure {
  std::string text;
};
[[noreturn]] void Fail(std::string text);
void Contains(const std::string& text, const std::string& part, std::string_view what);
void Equal(const std::string& got, const std::string& wanted, std::string_view what);

// The words of a line: bare ones, and name=value options.
struct Words {
  std::vector<std::string> bare;
  std::map<std::string, std::string> options;

  bool Has(const std::string& name) const { return options.contains(name); }
  std::string Get(const std::string& name, std::string other = {}) const {
    const auto found = options.find(name);
    return found == options.end() ? other : found->second;
  }
  template <typename T>
  T Number(const std::string& name, T other) const {
    return Has(name) ? *ParseInteger<T>(name, Get(name)) : other;
  }
};

Words Read(std::string_view line);
// The parts between commas.
std::vector<std::string> List(const std::string& text);
// "n1" or "n1:TASK".
protocol::AgentKey KeyOf(const std::string& name);

}  // namespace muster::scenario
