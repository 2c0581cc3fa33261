#include "launcher/cli/why_report.h"

#include <algorithm>

#include "common/text.h"
#include "launcher/host/view_watch.h"

namespace muster::cli {
namespace {

// A screen has some 50 lines.
constexpr std::size_t kLastLinesShown = 20;
constexpr std::size_t kRoundsShown = 20;
constexpr std::size_t kEvidenceShown = 8;

Json StatusOf(const Story& story) { return Json::parse(story.report.status, nullptr, false); }

Json Sub(const Json& object, const char* name) {
  const Json* field = Field(object, name);
  return field != nullptr ? *field : Json::object();
}

// kNone while it runs, and where nothing is known.
protocol::Verdict VerdictOf(const Json& status) {
  using protocol::Outcome;
  const Json json = Sub(status, "verdict");
  const Json blame = Sub(json, "blame");
  protocol::Verdict verdict;
  for (const Outcome outcome :
       {Outcome::kSucceeded, Outcome::kGoesOnLater, Outcome::kFailed, Outcome::kStopped}) {
    if (Text(json, "outcome") == protocol::ToString(outcome)) verdict.outcome = outcome;
  }
  verdict.exit_code = static_cast<int>(Number(json, "exit_code", 0));
  verdict.blame.text = Text(blame, "text");
  return verdict;
}

bool Over(const Story& story) {
  return VerdictOf(StatusOf(story)).outcome != protocol::Outcome::kNone;
}

std::string Name(std::uint32_t attempt, std::uint32_t round) {
  return Concat("attempt ", attempt, " round ", round);
}

// The round that this failure ended: the newest of which rank and node are the same.
void FillRound(const std::vector<Round>& rounds, FirstFailure* failure) {
  for (const Round& round : rounds) {
    if (round.ended_ms == 0 || round.node != failure->node || round.rank != failure->rank) continue;
    failure->attempt = round.attempt;
    failure->round = round.round;
  }
}

std::optional<FirstFailure> OfBlame(const Json& status, const Json& blame,
                                    const std::vector<Round>& rounds) {
  FirstFailure failure;
  failure.rank = static_cast<int>(std::max<std::int64_t>(Number(blame, "rank", -1), -1));
  failure.node = Text(blame, "node");
  failure.cause = Text(blame, "cause");
  failure.text = Text(blame, "text");
  if (failure.rank < 0 && failure.node.empty()) return std::nullopt;
  const Json fence = Sub(status, "fence");
  failure.attempt = static_cast<std::uint32_t>(Number(fence, "attempt", 0));
  failure.round = static_cast<std::uint32_t>(Number(fence, "round", 0));
  FillRound(rounds, &failure);
  return failure;
}

// Of the run as it is told to people; nothing where nobody failed.
std::optional<FirstFailure> Told(const Story& story) {
  const Json status = StatusOf(story);
  const std::vector<Round> rounds = Rounds(story.history);
  if (!status.is_object()) return std::nullopt;
  switch (VerdictOf(status).outcome) {
    case protocol::Outcome::kNone:
      return OfBlame(status, Sub(status, "last_blame"), rounds);
    case protocol::Outcome::kSucceeded:
      return std::nullopt;
    case protocol::Outcome::kGoesOnLater:
    case protocol::Outcome::kFailed:
    case protocol::Outcome::kStopped:
      return OfBlame(status, Sub(Sub(status, "verdict"), "blame"), rounds);
  }
  return std::nullopt;
}

std::optional<FirstFailure> OfEvents(const Story& story) {
  const std::vector<Round> rounds = Rounds(story.history);
  for (auto round = rounds.rbegin(); round != rounds.rend(); ++round) {
    if (round->ended_ms == 0 || (round->rank < 0 && round->node.empty())) continue;
    return FirstFailure{round->attempt, round->round, round->rank, round->node, "", round->end};
  }
  return std::nullopt;
}

std::string RoundText(const Round& round) {
  std::string out =
      Concat("  ", Name(round.attempt, round.round), "  ", LocalTime(round.sealed_ms), "  ");
  if (round.started_ms == 0) return Concat(out, "did not start", "\n");
  out += Printable(round.world);
  if (round.ended_ms == 0) return Concat(out, "\n");
  const Duration ran =
      std::chrono::milliseconds(std::max<std::int64_t>(round.ended_ms - round.started_ms, 0));
  return Concat(out, ", ended after ", DescribeDuration(ran), ": ", Printable(round.end), "\n");
}

std::string RoundsText(const std::vector<Round>& rounds) {
  if (rounds.empty()) return "";
  std::string out = "rounds\n";
  const std::size_t first = rounds.size() > kRoundsShown ? rounds.size() - kRoundsShown : 0;
  if (first > 0) out += Concat("  (", first, " earlier ones: muster events)\n");
  for (std::size_t i = first; i < rounds.size(); ++i) out += RoundText(rounds[i]);
  return out;
}

std::vector<Event> EvidenceOf(const Story& story, const FirstFailure& failure) {
  for (const Round& round : Rounds(story.history)) {
    if (round.attempt != failure.attempt || round.round != failure.round) continue;
    std::vector<Event> seen = Evidence(story.history, round);
    // The first is what all the others follow from.
    if (seen.size() > kEvidenceShown) seen.resize(kEvidenceShown);
    return seen;
  }
  return {};
}

std::string EvidenceText(const std::vector<Event>& seen) {
  if (seen.empty()) return "";
  std::string out = "seen in that round\n";
  for (const Event& event : seen) {
    out += Concat("  ", LocalTime(event.unix_ms, true), "  ", event.kind, "  ",
                  Printable(event.text), "\n");
  }
  return out;
}

std::string WhereText(const Story& story, const std::optional<FirstFailure>& failure) {
  std::string out = "where to look\n";
  const LogFile* log = failure ? LogOf(story, *failure) : nullptr;
  if (log == nullptr) {
    if (story.logs.empty())
      return Concat(out, "  no worker's output is in ", story.log_folder, "\n");
    return Concat(out, "  ", story.logs.size(), " logs in ", story.log_folder, "; muster logs ",
                  story.report.folder, " lists them\n");
  }
  out += Concat("  ", log->path, " (", Size(log->bytes), ")");
  const std::vector<std::string> lines = LastLines(*log, kLastLinesShown, failure->rank);
  if (lines.empty()) return out + ", without a line\n";
  out += ", its last lines:\n";
  for (const std::string& line : lines) out += Concat("    | ", line, "\n");
  return out;
}

std::string Running(const Story& story, const Json& status) {
  if (!status.is_object()) {
    return Concat("nothing is known: ", story.report.folder, " holds no status and no verdict",
                  story.report.problem.empty() ? "" : Concat(" (", story.report.problem, ")"));
  }
  const Json fence = Sub(status, "fence");
  const std::string round =
      Concat(Name(static_cast<std::uint32_t>(Number(fence, "attempt", 0)),
                  static_cast<std::uint32_t>(Number(fence, "round", 0))),
             ", ", Text(status, "phase"), ", world size ", Number(status, "world_size", 0));
  std::string out = story.report.live
                        ? Concat("it runs (", round, ")")
                        : Concat(
                              "no verdict is written and no daemon answers; the last that is "
                              "known: ",
                              round);
  const std::string trouble = Text(Sub(status, "last_blame"), "text");
  const std::string waiting = Text(status, "waiting_for");
  out += trouble.empty() ? "; nothing has failed" : Concat("; the last trouble: ", trouble);
  if (!waiting.empty()) out += Concat("; ", waiting);
  return out;
}

Json RoundsJson(const std::vector<Round>& rounds) {
  Json all = Json::array();
  for (const Round& round : rounds) {
    all.push_back({{"attempt", round.attempt},
                   {"round", round.round},
                   {"sealed_unix_ms", round.sealed_ms},
                   {"started_unix_ms", round.started_ms},
                   {"ended_unix_ms", round.ended_ms},
                   {"world", round.world},
                   {"end", round.end},
                   {"node", round.node},
                   {"rank", round.rank}});
  }
  return all;
}

}  // namespace

Story ReadStory(const std::string& run_folder) {
  Story story;
  story.report = ReadRun(run_folder);
  story.history = ReadHistory(run_folder);
  story.log_folder = LogFolder(run_folder);
  story.logs = ListLogs(story.log_folder);
  return story;
}

std::optional<FirstFailure> FindFirstFailure(const Story& story) {
  auto told = Told(story);
  return told ? told : OfEvents(story);
}

const LogFile* LogOf(const Story& story, const FirstFailure& failure) {
  if (failure.rank < 0) return nullptr;
  const LogFile* of_node = nullptr;
  for (const LogFile& log : story.logs) {
    if (log.attempt != failure.attempt || log.round != failure.round) continue;
    if (log.rank == failure.rank) return &log;
    const bool here = log.agent == failure.node || log.agent.starts_with(failure.node + ".task-");
    if (log.rank < 0 && here && (of_node == nullptr || !LastLines(log, 1, failure.rank).empty())) {
      of_node = &log;
    }
  }
  return of_node;
}

bool Answers(const Story& story) {
  return StatusOf(story).is_object() || !story.history.events.empty();
}

std::string WhySentence(const Story& story) {
  const Json status = StatusOf(story);
  const protocol::Verdict verdict = VerdictOf(status);
  if (verdict.outcome != protocol::Outcome::kNone) return host::VerdictSentence(verdict);
  if (!status.is_object() && !story.history.events.empty()) {
    const Event& last = story.history.events.back();
    return Concat("no status and no verdict are written; the last event, at ",
                  LocalTime(last.unix_ms), ": ", last.kind, last.text.empty() ? "" : ": ",
                  last.text);
  }
  return Running(story, status);
}

std::string WhyText(const Story& story) {
  std::string out = Concat(story.report.name, ": ", Printable(WhySentence(story)), "\n");
  if (!story.report.problem.empty() && StatusOf(story).is_object()) {
    out += Concat("  from its files, for ", Printable(story.report.problem), "\n");
  }
  for (const std::string& problem : story.history.problems) out += Concat("  ", problem, "\n");
  if (!Answers(story)) return out;
  // Without a status the events alone tell who failed.
  const auto failure = StatusOf(story).is_object() ? Told(story) : OfEvents(story);
  if (failure) out += EvidenceText(EvidenceOf(story, *failure));
  return out + RoundsText(Rounds(story.history)) + WhereText(story, failure);
}

Json WhyJson(const Story& story) {
  const protocol::Verdict verdict = VerdictOf(StatusOf(story));
  Json json = {{"name", story.report.name},
               {"folder", story.report.folder},
               {"live", story.report.live},
               {"over", Over(story)},
               {"outcome", protocol::ToString(verdict.outcome)},
               {"exit_code", verdict.exit_code},
               {"sentence", WhySentence(story)}};
  const auto failure = StatusOf(story).is_object() ? Told(story) : OfEvents(story);
  if (failure) {
    Json evidence = Json::array();
    for (const Event& event : EvidenceOf(story, *failure)) {
      evidence.push_back(Json::parse(event.line, nullptr, false));
    }
    Json first = {{"attempt", failure->attempt},    {"round", failure->round},
                  {"rank", failure->rank},          {"node", failure->node},
                  {"cause", failure->cause},        {"text", failure->text},
                  {"evidence", std::move(evidence)}};
    if (const LogFile* log = LogOf(story, *failure)) {
      first["log"] = log->path;
      first["last_lines"] = LastLines(*log, kLastLinesShown, failure->rank);
    }
    json["first_failure"] = std::move(first);
  }
  json["rounds"] = RoundsJson(Rounds(story.history));
  json["log_folder"] = story.log_folder;
  Json problems = story.history.problems;
  if (!story.report.problem.empty()) problems.push_back(story.report.problem);
  json["problems"] = std::move(problems);
  return json;
}

}  // namespace muster::cli
