#include "launcher/cli/history.h"

#include <algorithm>
#include <array>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <limits>

#include "common/escape.h"
#include "common/text.h"
#include "launcher/cli/json_fields.h"

namespace muster::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "events-";
constexpr std::string_view kSuffix = ".jsonl";

// (attempt, path), sorted.
std::vector<std::pair<std::uint32_t, std::string>> EventFiles(const std::string& folder) {
  std::vector<std::pair<std::uint32_t, std::string>> files;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(kPrefix) || !name.ends_with(kSuffix)) continue;
    const auto attempt = ParseInteger<std::uint32_t>(
        "attempt", std::string_view(name).substr(kPrefix.size(),
                                                 name.size() - kPrefix.size() - kSuffix.size()));
    if (attempt.ok()) files.emplace_back(*attempt, entry.path().string());
  }
  std::ranges::sort(files);
  return files;
}

std::uint32_t Count(const Json& object, const char* name, std::uint32_t otherwise) {
  const std::int64_t number = Number(object, name, otherwise);
  return number < 0 || number > std::numeric_limits<std::uint32_t>::max()
             ? otherwise
             : static_cast<std::uint32_t>(number);
}

bool ReadEvent(std::string line, std::uint32_t attempt, Event* event) {
  const Json json = Json::parse(line, nullptr, false);
  if (!json.is_object()) return false;
  event->unix_ms = Number(json, "unix_ms", 0);
  event->kind = Text(json, "kind");
  event->attempt = attempt;
  if (const Json* fence = Field(json, "fence")) {
    event->attempt = Count(*fence, "attempt", attempt);
    event->round = Count(*fence, "round", 0);
  }
  event->node = Text(json, "node");
  const std::int64_t rank = Number(json, "rank", -1);
  event->rank = rank < 0 || rank > std::numeric_limits<int>::max() ? -1 : static_cast<int>(rank);
  event->text = Text(json, "text");
  event->line = std::move(line);
  return !event->kind.empty();
}

// "4 ranks on 2 nodes, cause code, rank 0 at ...": what stands before the cause.
std::string World(const std::string& started) {
  return started.substr(0, started.find(", cause "));
}

}  // namespace

History ReadHistory(const std::string& run_folder) {
  History history;
  for (const auto& [attempt, path] : EventFiles(run_folder)) {
    std::ifstream file(path);
    if (!file) {
      history.problems.push_back(Concat("cannot read ", path));
      continue;
    }
    std::size_t damaged = 0;
    for (std::string line; std::getline(file, line);) {
      if (Trim(line).empty()) continue;
      Event event;
      if (ReadEvent(std::move(line), attempt, &event)) {
        history.events.push_back(std::move(event));
      } else {
        ++damaged;
      }
    }
    if (damaged > 0) {
      history.problems.push_back(Concat(damaged, damaged == 1 ? " line of " : " lines of ", path,
                                        damaged == 1 ? " is" : " are", " damaged and left out"));
    }
  }
  return history;
}

std::vector<Round> Rounds(const History& history) {
  std::vector<Round> rounds;
  for (const Event& event : history.events) {
    const bool sealed = event.kind == "round sealed";
    const bool started = event.kind == "round started";
    const bool ended = event.kind == "round ended" || event.kind == "draining";
    if (!sealed && !started && !ended) continue;
    const bool same = !rounds.empty() && rounds.back().attempt == event.attempt &&
                      rounds.back().round == event.round;
    if (!same && event.round == 0) continue;  // a run that ends without a world
    if (!same) {
      rounds.push_back({});
      rounds.back().attempt = event.attempt;
      rounds.back().round = event.round;
      rounds.back().sealed_ms = event.unix_ms;
    }
    Round& round = rounds.back();
    if (started) {
      round.started_ms = event.unix_ms;
      round.world = World(event.text);
    } else if (ended && round.ended_ms == 0) {
      round.ended_ms = event.unix_ms;
      round.end = event.text;
      round.node = event.node;
      round.rank = event.rank;
    }
  }
  return rounds;
}

std::vector<Event> Evidence(const History& history, const Round& round) {
  constexpr auto kKinds = std::to_array<std::string_view>(
      {"agent suspect", "agent dead", "agent left out", "worker exited", "worker broken",
       "worker request", "operator request", "host facts"});
  std::vector<Event> seen;
  for (const Event& event : history.events) {
    if (event.attempt != round.attempt || event.round != round.round) continue;
    if (round.ended_ms != 0 && event.unix_ms > round.ended_ms) continue;
    if (std::ranges::find(kKinds, event.kind) != kKinds.end()) seen.push_back(event);
  }
  return seen;
}

std::string LocalTime(std::int64_t unix_ms, bool milliseconds) {
  const auto seconds = static_cast<std::time_t>(unix_ms / 1000);
  std::tm parts{};
  if (unix_ms <= 0 || localtime_r(&seconds, &parts) == nullptr) return "(no time)";
  std::array<char, 64> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M:%S", &parts);
  if (!milliseconds) return text.data();
  const std::string digits = std::to_string(1000 + unix_ms % 1000);
  return Concat(text.data(), ".", digits.substr(1));
}

std::string Printable(std::string_view text, std::size_t limit) {
  std::string out = EscapeBytes(text.substr(0, limit),
                                [](unsigned char byte) { return IsControl(byte) && byte != '\t'; });
  if (text.size() > limit) out += "...";
  return out;
}

}  // namespace muster::cli
