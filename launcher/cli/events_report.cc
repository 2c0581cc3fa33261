#include "launcher/cli/events_report.h"

#include "common/text.h"

namespace muster::cli {
namespace {

// The longest kind is "daemon restarted".
constexpr std::size_t kKindWidth = 16;

}  // namespace

std::string EventsText(const History& history) {
  std::string out;
  for (const Event& event : history.events) {
    std::string kind = Printable(event.kind);
    if (kind.size() < kKindWidth) kind.resize(kKindWidth, ' ');
    std::string text = Printable(event.text);
    // The host's and operator's facts are about a node that their text does not name.
    if (!event.node.empty() && text.find(event.node) == std::string::npos) {
      text = Concat(Printable(event.node), ": ", text);
    }
    out += Concat(LocalTime(event.unix_ms, true), "  attempt ", event.attempt, " round ",
                  event.round, "  ", kind, "  ", text, "\n");
  }
  return out;
}

std::string EventLines(const History& history) {
  std::string out;
  for (const Event& event : history.events) out += event.line + "\n";
  return out;
}

}  // namespace muster::cli
