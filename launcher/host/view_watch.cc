#include "launcher/host/view_watch.h"

#include <algorithm>
#include <set>
#include <utility>

#include "common/text.h"

namespace muster::host {
namespace {

// A world of some nodes forms within that; saying so each time would be noise.
constexpr Duration kQuietWait = std::chrono::seconds(3);
// The sentence changes with every node that comes; people read one every few seconds.
constexpr Duration kBetweenWaits = std::chrono::seconds(5);
// The same sentence again, with its newer times, so that a long wait does not look like a hang.
constexpr Duration kSameWait = std::chrono::seconds(60);

// The sentence without its times, which change with every look.
std::string_view Timeless(std::string_view sentence) {
  return sentence.substr(0, std::min(sentence.find(" since "), sentence.find(", until ")));
}

}  // namespace

std::vector<std::string> ViewWatch::Next(const protocol::RunView& view, TimePoint now) {
  std::vector<std::string> lines;
  trouble_ = false;
  std::set<std::string_view> nodes;
  for (const protocol::AgentView& agent : view.agents) {
    if (agent.state.starts_with("suspect")) trouble_ = true;
    if (agent.node_rank >= 0) nodes.insert(agent.key.node);
  }
  if (view.waiting_for.empty()) {
    waiting_since_.reset();
    said_.clear();
  } else {
    trouble_ = trouble_ || view.fence.round > 0;
    if (!waiting_since_) waiting_since_ = now;
    const Duration pause =
        Timeless(view.waiting_for) == Timeless(said_) ? kSameWait : kBetweenWaits;
    if (now - *waiting_since_ >= kQuietWait && (said_.empty() || now - said_at_ >= pause)) {
      said_ = view.waiting_for;
      said_at_ = now;
      lines.push_back(view.waiting_for);
    }
  }
  if (view.world_size > 0 && view.waiting_for.empty() && view.fence > round_) {
    // The first round of an attempt is what everybody expects.
    std::string line = Concat("round ", view.fence.round, ": ", view.world_size,
                              view.world_size == 1 ? " worker on " : " workers on ", nodes.size(),
                              nodes.size() == 1 ? " node" : " nodes");
    if (view.fence.round > 1 && !view.last_blame.text.empty()) {
      line += Concat(", because ", view.last_blame.text);
    }
    lines.push_back(line);
    round_ = view.fence;
  }
  return lines;
}

protocol::Verdict MakeVerdict(protocol::Outcome outcome, int exit_code, protocol::Cause cause,
                              std::string text) {
  protocol::Verdict verdict;
  verdict.outcome = outcome;
  verdict.exit_code = exit_code;
  verdict.blame.cause = cause;
  verdict.blame.text = std::move(text);
  return verdict;
}

std::string VerdictSentence(const protocol::Verdict& verdict) {
  std::string text;
  switch (verdict.outcome) {
    case protocol::Outcome::kSucceeded:
      return "the run succeeded";
    case protocol::Outcome::kNone:
    case protocol::Outcome::kFailed:
      text = "the run failed";
      break;
    case protocol::Outcome::kGoesOnLater:
      text = "the run goes on later";
      break;
    case protocol::Outcome::kStopped:
      text = "the run was stopped";
      break;
  }
  if (!verdict.blame.text.empty()) text += Concat(": ", verdict.blame.text);
  return text;
}

}  // namespace muster::host
