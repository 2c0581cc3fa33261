#include <chrono>
#include <thread>

#include "common/log.h"
#include "common/text.h"
#include "launcher/cli/find_run.h"
#include "launcher/cli/job_command.h"
#include "launcher/cli/logs_report.h"
#include "proto/environment.h"

namespace muster::cli {
namespace {

// Often enough for eyes, seldom enough for a shared file system.
constexpr std::chrono::milliseconds kFollowPause(300);

// Prints logs one after another, each with its name where there are several.
class Printer {
 public:
  explicit Printer(bool titles) : titles_(titles) {}

  // Counts what is there now as printed.
  void Skip(const std::vector<LogFile>& logs) {
    for (const LogFile& log : logs) {
      ReadLog(log, -1, false, &offsets_, [](std::string_view /*line*/) {});
    }
  }
  void PrintNew(const ChosenLogs& chosen, bool to_the_end) {
    for (const LogFile& log : chosen.logs) {
      std::string text;
      ReadLog(log, chosen.rank, to_the_end, &offsets_, [&](std::string_view line) {
        text += line;
        if (text.size() < kPiece) return;
        Out(log, text);
        text.clear();
      });
      if (!text.empty()) Out(log, text);
    }
  }

 private:
  static constexpr std::size_t kPiece = 64U << 10U;

  void Out(const LogFile& log, const std::string& text) {
    if (titles_ && last_ != log.path) Print(Concat("==> ", log.path, " <==\n"));
    last_ = log.path;
    Print(text);
  }

  const bool titles_;
  std::string last_;
  Offsets offsets_;
};

void Follow(const std::string& folder, const Wanted& wanted, ChosenLogs chosen) {
  const bool all = wanted.rank < 0 && !wanted.first_failing;
  chosen.rank = wanted.first_failing ? chosen.rank : wanted.rank;
  Printer printer(true);
  if (all) printer.Skip(chosen.logs);
  while (true) {
    // Asked first: what is written until then is read below.
    const bool running = LooksRunning(folder);
    if (!wanted.first_failing) {
      chosen.logs = ListLogs(LogFolder(folder));
      // Of an agent's log the reader takes that rank's lines.
      std::erase_if(chosen.logs, [&](const LogFile& log) {
        return !all && log.rank >= 0 && log.rank != wanted.rank;
      });
    }
    printer.PrintNew(chosen, !running);
    if (!running) return;
    std::this_thread::sleep_for(kFollowPause);
  }
}

// False where there was nothing to show.
bool ShowRun(const JobCommand& command, const std::string& folder, const Wanted& wanted) {
  const bool follow = command.context.line.settings.Flag("follow");
  const Story story = ReadStory(folder);
  Result<ChosenLogs> chosen = ChooseLogs(story, wanted);
  // A rank that has not spoken yet can be waited for.
  if (!chosen.ok() && follow && !wanted.first_failing && LooksRunning(folder))
    chosen = ChosenLogs();
  if (!chosen.ok()) {
    LogError(chosen.status().message());
    return false;
  }
  if (follow) {
    LogInfo(
        Concat("following ", RunTitle(folder), " until it ends; Ctrl-C ends this, not the run"));
    Follow(folder, wanted, std::move(chosen).value());
    LogInfo(Concat(story.report.name, ": ", WhySentence(ReadStory(folder))));
    return true;
  }
  if (wanted.rank < 0 && !wanted.first_failing) {
    Print(LogsText(story.report.name, story.log_folder, story.logs));
    return !story.logs.empty();
  }
  Printer(chosen->logs.size() > 1).PrintNew(*chosen, true);
  return true;
}

}  // namespace

int LogsCommand(const Words& words) {
  JobCommand command;
  if (const auto over = BeginJobCommand(config::kLogs, words, &command)) return *over;
  const config::Settings& settings = command.context.line.settings;
  Wanted wanted;
  if (settings.Get("rank") != nullptr) wanted.rank = settings.Count("rank");
  wanted.first_failing = settings.Flag("first-failing");
  if (wanted.rank >= 0 && wanted.first_failing) {
    return UsageError(InvalidArgument("--rank and --first-failing: give one of them"));
  }
  if (settings.Flag("follow") && (command.Json() || command.folders.size() > 1)) {
    return UsageError(
        InvalidArgument("--follow shows one run and no JSON; choose the run with --name"));
  }
  bool shown = false;
  Json runs = Json::array();
  for (const std::string& folder : command.folders) {
    if (!command.Json()) {
      shown = ShowRun(command, folder, wanted) || shown;
      continue;
    }
    const Story story = ReadStory(folder);
    const auto chosen = ChooseLogs(story, wanted);
    if (!chosen.ok()) LogError(chosen.status().message());
    shown = shown || chosen.ok();
    runs.push_back({{"name", story.report.name},
                    {"folder", story.report.folder},
                    {"log_folder", story.log_folder},
                    {"logs", LogsJson(chosen.ok() ? chosen->logs : std::vector<LogFile>())}});
  }
  if (command.Json()) PrintRuns(command, std::move(runs));
  return shown ? exit_code::kDone : kNoAnswer;
}

}  // namespace muster::cli
