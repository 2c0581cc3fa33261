#include "tests/scenarios/words.h"

#include <cstdint>
#include <utility>

namespace muster::scenario {

void Fail(std::string text) { throw Failure{std::move(text)}; }

void Contains(const std::string& text, const std::string& part, std::string_view what) {
  if (text.find(part) == std::string::npos) {
    Fail(Concat(what, " is ", Quote(text), ", without ", Quote(part)));
  }
}

void Equal(const std::string& got, const std::string& wanted, std::string_view what) {
  if (got != wanted) Fail(Concat(what, " is ", Quote(got), ", not ", Quote(wanted)));
}

Words Read(std::string_view line) {
  Words words;
  std::string word;
  std::size_t equals = std::string::npos;
  bool quoted = false;
  bool any = false;
  const auto finish = [&] {
    if (!any) return;
    if (equals == std::string::npos) {
      words.bare.push_back(word);
    } else {
      words.options[word.substr(0, equals)] = word.substr(equals);
    }
    word.clear();
    equals = std::string::npos;
    any = false;
  };
  for (const char c : line) {
    if (c == '"') {
      quoted = !quoted;
      any = true;
    } else if (!quoted && c == '#') {
      break;
    } else if (!quoted && (c == ' ' || c == '\t' || c == '\r')) {
      finish();
    } else if (!quoted && c == '=' && equals == std::string::npos) {
      equals = word.size();
      any = true;
    } else {
      word += c;
      any = true;
    }
  }
  finish();
  return words;
}

std::vector<std::string> List(const std::string& text) {
  std::vector<std::string> out;
  if (text.empty()) return out;
  for (const std::string_view part : Split(text, ',')) out.emplace_back(part);
  return out;
}

protocol::AgentKey KeyOf(const std::string& name) {
  const std::size_t colon = name.find(':');
  protocol::AgentKey key;
  key.node = name.substr(0, colon);
  if (colon != std::string::npos) {
    key.task_id = *ParseInteger<std::uint32_t>("task", name.substr(colon + 1));
  }
  return key;
}

}  // namespace muster::scenario
