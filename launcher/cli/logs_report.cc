#include "launcher/cli/logs_report.h"

#include <algorithm>
#include <set>

#include "common/text.h"

namespace muster::cli {
namespace {

// "attempt-0/rank-1.round-2.log"
std::string_view Within(const std::string& folder, const std::string& path) {
  std::string_view name = path;
  if (name.starts_with(folder + "/")) name.remove_prefix(folder.size() + 1);
  return name;
}

std::string RanksText(const std::vector<LogFile>& logs) {
  std::set<int> ranks;
  for (const LogFile& log : logs) {
    if (log.rank >= 0) ranks.insert(log.rank);
  }
  if (ranks.empty()) return logs.empty() ? "there is no log" : "there are logs of nodes only";
  const bool whole = *ranks.rbegin() - *ranks.begin() + 1 == static_cast<int>(ranks.size());
  if (ranks.size() == 1) return Concat("there is rank ", *ranks.begin());
  return Concat(whole ? "there are ranks " : "there are some of the ranks ", *ranks.begin(), " to ",
                *ranks.rbegin());
}

}  // namespace

std::string LogsText(const std::string& run, const std::string& folder,
                     const std::vector<LogFile>& logs) {
  if (logs.empty()) return Concat(run, ": no worker's output is in ", folder, "\n");
  std::string out =
      Concat(run, ": ", logs.size(), logs.size() == 1 ? " log in " : " logs in ", folder, "\n");
  std::size_t width = 0;
  for (const LogFile& log : logs) width = std::max(width, Within(folder, log.path).size());
  for (const LogFile& log : logs) {
    std::string name(Within(folder, log.path));
    name.resize(width, ' ');
    std::string size = Size(log.bytes);
    if (size.size() < 10) size.insert(0, 10 - size.size(), ' ');
    const std::vector<std::string> last = LastLines(log, 1);
    out +=
        Concat("  ", name, "  ", size, last.empty() ? "" : "  ", last.empty() ? "" : last[0], "\n");
  }
  return out;
}

Json LogsJson(const std::vector<LogFile>& logs) {
  Json all = Json::array();
  for (const LogFile& log : logs) {
    const std::vector<std::string> last = LastLines(log, 1);
    all.push_back({{"attempt", log.attempt},
                   {"round", log.round},
                   {"rank", log.rank},
                   {"agent", log.agent},
                   {"path", log.path},
                   {"parts", log.parts},
                   {"bytes", log.bytes},
                   {"last_line", last.empty() ? "" : last[0]}});
  }
  return all;
}

Result<ChosenLogs> ChooseLogs(const Story& story, const Wanted& wanted) {
  const std::string& run = story.report.name;
  if (wanted.first_failing) {
    const auto failure = FindFirstFailure(story);
    if (!failure) return NotFound(Concat(run, ": nobody has failed, as far as its files tell"));
    if (failure->rank < 0) {
      return NotFound(
          Concat(run, ": no rank failed first but ", failure->node, ": ", failure->text));
    }
    const LogFile* log = LogOf(story, *failure);
    if (log != nullptr) return ChosenLogs{{*log}, failure->rank};
    return NotFound(Concat(run, ": rank ", failure->rank, " on ", failure->node,
                           " failed first, but it has no log in ", story.log_folder));
  }
  if (wanted.rank < 0) return ChosenLogs{story.logs, -1};
  ChosenLogs chosen{LogsOfRank(story.logs, wanted.rank), wanted.rank};
  if (!chosen.logs.empty()) return chosen;
  return NotFound(Concat(run, ": rank ", wanted.rank, " has no log in ", story.log_folder, "; ",
                         RanksText(story.logs)));
}

}  // namespace muster::cli
