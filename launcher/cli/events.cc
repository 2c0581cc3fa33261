#include <filesystem>

#include "common/log.h"
#include "common/text.h"
#include "launcher/cli/events_report.h"
#include "launcher/cli/job_command.h"
#include "proto/environment.h"

namespace muster::cli {

int EventsCommand(const Words& words) {
  JobCommand command;
  if (const auto over = BeginJobCommand(config::kEvents, words, &command)) return *over;
  bool any = false;
  for (const std::string& folder : command.folders) {
    const History history = ReadHistory(folder);
    any = any || !history.events.empty();
    for (const std::string& problem : history.problems) LogWarning(problem);
    if (history.events.empty()) LogWarning(Concat("no event is written in ", folder));
    const bool title = command.folders.size() > 1 && !command.Json();
    if (title) Print(Concat(std::filesystem::path(folder).filename().string(), "\n"));
    Print(command.Json() ? EventLines(history) : EventsText(history));
  }
  return any ? exit_code::kDone : kNoAnswer;
}

}  // namespace muster::cli
