#include "launcher/cli/job_command.h"
#include "launcher/cli/why_report.h"
#include "proto/environment.h"

namespace muster::cli {

int WhyCommand(const Words& words) {
  JobCommand command;
  if (const auto over = BeginJobCommand(config::kWhy, words, &command)) return *over;
  bool answered = false;
  Json runs = Json::array();
  std::string text;
  for (const std::string& folder : command.folders) {
    const Story story = ReadStory(folder);
    answered = answered || Answers(story);
    if (command.Json()) {
      runs.push_back(WhyJson(story));
    } else {
      text += WhyText(story);
    }
  }
  if (command.Json()) {
    PrintRuns(command, std::move(runs));
  } else {
    Print(text);
  }
  return answered ? exit_code::kDone : kNoAnswer;
}

}  // namespace muster::cli
