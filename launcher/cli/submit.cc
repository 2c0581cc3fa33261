#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <utility>

#include "common/log.h"
#include "common/text.h"
#include "launcher/agent/files.h"
#include "launcher/cli/context.h"
#include "launcher/cli/submit_words.h"
#include "launcher/slurm/command_line_scheduler.h"
#include "launcher/slurm/sbatch_command.h"
#include "proto/environment.h"

namespace muster::cli {
namespace {

// A controller under load answers within that; sbatch itself retries for as long.
constexpr Duration kSubmitDeadline = std::chrono::seconds(60);
// Slurm's own limit of a script is 4 MiB.
constexpr std::size_t kScriptBytesMax = std::size_t{4} << 20U;

Result<slurm::SubmitScript> ReadScript(const Words& words) {
  slurm::SubmitScript script{words[0], "", Words(words.begin() + 1, words.end())};
  Result<std::string> text = agent::ReadSmallFile(script.path, kScriptBytesMax);
  if (!text.ok()) {
    return InvalidArgument(Concat(text.status().message(),
                                  "; to submit a program instead of a "
                                  "script, write `--` before it: muster submit -- ",
                                  words[0], " ..."));
  }
  script.text = std::move(text).value();
  return script;
}

Status CheckFolders(const std::vector<slurm::OutputFolder>& folders) {
  for (const slurm::OutputFolder& wanted : folders) {
    struct stat facts {};
    if (stat(wanted.folder.c_str(), &facts) == 0 && S_ISDIR(facts.st_mode)) continue;
    return InvalidArgument(Concat(wanted.option, "=", wanted.pattern, ": the folder ",
                                  wanted.folder,
                                  " does not exist, and Slurm makes none: the job "
                                  "would fail without a line of output; make it first"));
  }
  return OkStatus();
}

std::string Describe(const slurm::SbatchCommand& command) {
  std::string line = "sbatch";
  for (const std::string& argument : command.request.arguments) {
    line += ' ' + slurm::ShellQuote(argument);
  }
  std::string out = line + "\n";
  if (!command.request.script.empty()) out += "\n" + command.request.script;
  return out;
}

Result<slurm::SbatchCommand> Build(const Context& context) {
  slurm::SubmitInput input;
  input.options = SbatchWords(context.line);
  input.directory = context.folder;
  input.environment = context.environment;
  const Words& program = context.line.program;
  const bool wrap = std::ranges::any_of(
      input.options, [](const std::string& word) { return word.starts_with("--wrap="); });
  if (program.empty() && !wrap) {
    return InvalidArgument(
        "nothing to submit; write `muster submit [options] SCRIPT` or `muster submit [options] "
        "-- PROGRAM [ARGUMENTS]`");
  }
  if (program.empty()) {
    for (auto& [name, value] : RunVariables(context.line)) input.environment[name] = value;
  } else if (context.line.dashes) {
    std::error_code error;
    const std::string self = std::filesystem::read_symlink("/proc/self/exe", error).string();
    if (error) return NotFound(Concat("cannot read /proc/self/exe: ", error.message()));
    input.program = program;
    input.run_words = RunWords(context.line, self);
  } else {
    MUSTER_ASSIGN_OR_RETURN(input.script, ReadScript(program));
    for (auto& [name, value] : RunVariables(context.line)) input.environment[name] = value;
  }
  return slurm::BuildSbatchCommand(input);
}

}  // namespace

int SubmitCommand(const Words& words) {
  const Result<Context> context = MakeContext(config::kSubmit, words, SbatchShapes());
  if (!context.ok()) return UsageError(context.status());
  if (HelpAsked(*context, config::kSubmit)) return exit_code::kDone;
  const Result<slurm::SbatchCommand> command = Build(*context);
  if (!command.ok()) return UsageError(command.status());
  if (const Status folders = CheckFolders(command->folders); !folders.ok()) {
    return UsageError(folders);
  }
  for (const std::string& note : command->notes) LogInfo(note);
  if (context->line.settings.Flag("dry-run")) {
    Print(Describe(*command));
    return exit_code::kDone;
  }
  slurm::CommandLineScheduler scheduler(context->environment);
  const Result<std::string> job = scheduler.Submit(command->request, kSubmitDeadline);
  if (!job.ok()) {
    const StatusCode code = job.status().code();
    const bool unknown = code == StatusCode::kDeadlineExceeded || code == StatusCode::kDataLoss;
    LogError(
        Concat(unknown ? "perhaps not submitted: " : "not submitted: ", job.status().message()));
    return code == StatusCode::kUnavailable || code == StatusCode::kDeadlineExceeded
               ? exit_code::kCouldNotForm
               : exit_code::kUsage;
  }
  if (std::ranges::count(command->request.arguments, "--parsable") > 0) {
    Print(Concat(*job, "\n"));
    return exit_code::kDone;
  }
  const std::size_t cluster = job->find(';');
  const std::string where =
      cluster == std::string::npos ? "" : Concat(" to cluster ", job->substr(cluster + 1));
  Print(Concat("submitted", where, " as job ", job->substr(0, cluster), "\n"));
  return exit_code::kDone;
}

}  // namespace muster::cli
