#pragma once

// What `muster why` says of a run: one sentence (who failed first, where, why), what was seen, the
// rounds with their ends, and where to look. From a run's status, events and logs, of which any may
// be missing.

#include <optional>
#include <string>
#include <vector>

#include "launcher/cli/history.h"
#include "launcher/cli/json_fields.h"
#include "launcher/cli/log_files.h"
#include "launcher/cli/status_report.h"

namespace muster::cli {

struct Story {
  RunReport report;
  History history;
  std::string log_folder;
  std::vector<LogFile> logs;
};
// Asks the run's daemon if there should be one.
Story ReadStory(const std::string& run_folder);

// Who failed first: of the verdict or the last trouble, else of the newest round that failed.
struct FirstFailure {
  std::uint32_t attempt = 0;
  std::uint32_t round = 0;
  int rank = -1;  // -1: the node as a whole
  std::string node;
  std::string cause;  // "" where only the events tell
  std::string text;
};
std::optional<FirstFailure> FindFirstFailure(const Story& story);
// Its log; nullptr if there is none.
const LogFile* LogOf(const Story& story, const FirstFailure& failure);

// False where nothing at all is known of the run.
bool Answers(const Story& story);
std::string WhySentence(const Story& story);
std::string WhyText(const Story& story);
Json WhyJson(const Story& story);

}  // namespace muster::cli
