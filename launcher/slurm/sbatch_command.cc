#include "launcher/slurm/sbatch_command.h"

#include <algorithm>

#include "common/text.h"
#include "proto/environment.h"

namespace muster::slurm {
namespace {

// Where Slurm is, who we are there and how it talks: set by users and sites, not by a job.
constexpr std::string_view kKept[] = {"SLURM_CONF", "SLURM_CLUSTERS", "SLURM_JWT",
                                      "SLURM_TIME_FORMAT", "SLURM_EXIT_ERROR"};
constexpr std::string_view kLeakingFamilies[] = {"SLURM_",
                                                 "SLURMD_",
                                                 "SBATCH_",
                                                 "SRUN_",
                                                 "SALLOC_",
                                                 "PMI_",
                                                 "PMIX_",
                                                 "PMI2_",
                                                 "OMPI_",
                                                 "SPANK_",
                                                 "_SLURM_SPANK_OPTION_"};
// Set by Slurm's gres plugins in a job; the new one gets its own.
constexpr std::string_view kLeakingNames[] = {"CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES",
                                              "GPU_DEVICE_ORDINAL", "ZE_AFFINITY_MASK"};
// Of a surrounding muster run; a job of its own must not know them.
constexpr const char* kMusterInternals[] = {
    environment::kRunId,       environment::kRunName,       environment::kAttempt,
    environment::kRound,       environment::kRestartCause,  environment::kPreviousWorldSize,
    environment::kDeviceIndex, environment::kAgentSocket,   environment::kStateDir,
    environment::kLocalDir,    environment::kCheckpointDir, environment::kNoticeFile,
    environment::kStep,        environment::kTaskProgram,   environment::kTaskError,
    environment::kEndpoint,    environment::kJoinSecret,    environment::kCertificate,
    environment::kAgentOptions};

bool Leaks(std::string_view name) {
  if (std::find(std::begin(kKept), std::end(kKept), name) != std::end(kKept)) return false;
  if (std::find(std::begin(kLeakingNames), std::end(kLeakingNames), name) !=
      std::end(kLeakingNames)) {
    return true;
  }
  return std::any_of(std::begin(kLeakingFamilies), std::end(kLeakingFamilies),
                     [name](std::string_view family) { return name.starts_with(family); });
}

// A setting and where it comes from: the command line wins over SBATCH_*, that over the script.
struct Settings {
  std::vector<SbatchSetting> words;
  std::vector<SbatchSetting> lines;
  const EnvironmentMap& environment;

  bool Said(std::string_view name, std::string_view variable) const {
    return FindSetting(words, name) != nullptr || FindSetting(lines, name) != nullptr ||
           environment.contains(variable);
  }
  std::string Value(std::string_view name, std::string_view variable) const {
    if (const SbatchSetting* setting = FindSetting(words, name); setting != nullptr) {
      return setting->value.value_or("");
    }
    if (const std::string_view value = Lookup(environment, variable); !value.empty()) {
      return std::string(value);
    }
    const SbatchSetting* setting = FindSetting(lines, name);
    return setting == nullptr ? std::string() : setting->value.value_or("");
  }
};

void AddDefaults(const Settings& settings, SbatchCommand& command) {
  std::vector<std::string>& arguments = command.request.arguments;
  if (!settings.Said("requeue", "SBATCH_REQUEUE") &&
      !settings.Said("no-requeue", "SBATCH_NO_REQUEUE")) {
    arguments.emplace_back("--requeue");
    command.notes.emplace_back("--requeue is added: a lost batch host restarts the job");
  }
  if (!settings.Said("no-kill", "SBATCH_NO_KILL")) {
    arguments.emplace_back("--no-kill");
    command.notes.emplace_back("--no-kill is added: the job survives the loss of a node");
  }
  if (!settings.Said("open-mode", "SBATCH_OPEN_MODE")) {
    arguments.emplace_back("--open-mode=append");
    command.notes.emplace_back("--open-mode=append is added: a requeue keeps the output before it");
  } else if (settings.Value("open-mode", "SBATCH_OPEN_MODE").starts_with("t")) {
    command.notes.emplace_back(
        "--open-mode=truncate: a requeue erases the output of the attempt before it");
  }
}

std::string FileName(std::string_view path) {
  return std::string(path.substr(path.rfind('/') + 1));
}

// A name that tells jobs apart: "train.py" rather than "python".
std::string NameOfProgram(const std::vector<std::string>& program) {
  for (const std::string& word : program) {
    if (word.ends_with(".py") || word.ends_with(".sh")) return FileName(word);
  }
  return FileName(program.front());
}

std::string MakeScript(const SubmitInput& input) {
  std::string script = "#!/bin/sh\n# Written by `muster submit`.\nexec";
  for (const std::vector<std::string>* words : {&input.run_words, &input.program}) {
    for (const std::string& word : *words) script += ' ' + ShellQuote(word);
  }
  return script + '\n';
}

std::string JobName(const SubmitInput& input, const Settings& settings) {
  std::string name = settings.Value("job-name", "SBATCH_JOB_NAME");
  if (!name.empty()) return name;
  if (input.script.has_value()) return FileName(input.script->path);
  return input.program.empty() ? "wrap" : NameOfProgram(input.program);
}

// Fills in what is known before the job exists; false if a part is not.
bool ExpandPart(std::string_view part, std::string_view job_name, std::string_view user,
                std::string& out) {
  for (std::size_t i = 0; i < part.size(); ++i) {
    if (part[i] != '%') {
      out += part[i];
      continue;
    }
    ++i;
    while (i < part.size() && part[i] >= '0' && part[i] <= '9') ++i;
    if (i >= part.size()) return false;
    if (part[i] == '%') {
      out += '%';
    } else if (part[i] == 'x') {
      out += job_name;
    } else if (part[i] == 'u' && !user.empty()) {
      out += user;
    } else {
      return false;
    }
  }
  return true;
}

std::string Below(const std::string& folder, std::string_view path) {
  if (path.empty()) return folder;
  if (path.starts_with('/')) return std::string(path);
  return folder.ends_with('/') ? Concat(folder, path) : Concat(folder, '/', path);
}

void AddFolder(const std::string& option, const std::string& pattern, const std::string& base,
               const std::string& job_name, std::string_view user, SbatchCommand& command) {
  if (pattern.empty() || pattern == "none") return;
  OutputFolder folder{.option = option, .pattern = pattern, .folder = {}, .fixed = true};
  const std::size_t slash = pattern.rfind('/');
  const std::string_view path =
      slash == std::string::npos ? std::string_view() : std::string_view(pattern).substr(0, slash);
  std::string expanded = pattern.starts_with('/') ? "/" : "";
  const bool literal = pattern.find('\\') != std::string::npos;
  for (const std::string_view part : Split(path, '/')) {
    if (part.empty()) continue;
    std::string filled;
    if (literal) {
      filled = part;
      std::erase(filled, '\\');
    } else if (!ExpandPart(part, job_name, user, filled)) {
      folder.fixed = false;
      break;
    }
    if (!expanded.empty() && !expanded.ends_with('/')) expanded += '/';
    expanded += filled;
  }
  folder.folder = Below(base, expanded);
  command.folders.push_back(std::move(folder));
}

}  // namespace

std::string ShellQuote(std::string_view text) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./:=@%+,-";
  if (!text.empty() && text.find_first_not_of(kPlain) == std::string_view::npos) {
    return std::string(text);
  }
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'') {
      out += "'\\''";
    } else {
      out += c;
    }
  }
  return out + '\'';
}

EnvironmentMap WithoutSurroundingJob(const EnvironmentMap& environment,
                                     std::vector<std::string>& notes) {
  EnvironmentMap out = environment;
  for (const char* name : kMusterInternals) out.erase(name);
  const std::string_view job = Lookup(environment, "SLURM_JOB_ID");
  if (job.empty() && Lookup(environment, "SLURM_JOBID").empty()) return out;
  std::vector<std::string> settings;
  std::erase_if(out, [&settings](const auto& entry) {
    if (!Leaks(entry.first)) return false;
    if (entry.first.starts_with("SBATCH_")) settings.push_back(entry.first);
    return true;
  });
  notes.push_back(Concat("the variables of the surrounding job ", job, " are not passed on"));
  if (!settings.empty()) {
    notes.push_back(Concat("inside a job ", Join(settings, ", "),
                           " cannot be told from what leaked, and is not used: give options"));
  }
  return out;
}

Result<SbatchCommand> BuildSbatchCommand(const SubmitInput& input) {
  SbatchCommand command;
  command.request.environment = WithoutSurroundingJob(input.environment, command.notes);
  command.request.directory = input.directory;
  Settings settings{.words = {}, .lines = {}, .environment = command.request.environment};
  command.request.arguments = input.options;
  // A quiet sbatch keeps even the job's number to itself.
  std::erase(command.request.arguments, "--quiet");
  std::erase(command.request.arguments, "-Q");
  MUSTER_ASSIGN_OR_RETURN(settings.words, ParseSbatchWords(command.request.arguments));
  const bool wrap = FindSetting(settings.words, "wrap") != nullptr;
  const int ways =
      (input.script.has_value() ? 1 : 0) + (input.program.empty() ? 0 : 1) + (wrap ? 1 : 0);
  if (ways != 1) {
    return InvalidArgument(
        "muster submit needs one thing to run: a batch script, or -- and a program (or --wrap)");
  }
  if (input.script.has_value()) {
    if (!input.script->text.starts_with("#!")) {
      return InvalidArgument(Concat(input.script->path,
                                    " does not begin with #! and so is no batch script; to run a "
                                    "program write: muster submit OPTIONS -- PROGRAM ARGUMENTS"));
    }
    MUSTER_ASSIGN_OR_RETURN(settings.lines,
                            ParseSbatchLines(input.script->path, input.script->text));
  }
  // sbatch would end with the job, hours after our deadline, or without a job, or say nothing.
  for (const auto& [name, variable] :
       {std::pair{"wait", "SBATCH_WAIT"}, std::pair{"test-only", ""}, std::pair{"quiet", ""}}) {
    if (!settings.Said(name, variable)) continue;
    return InvalidArgument(Concat("muster submit has no --", name,
                                  "; `muster submit --dry-run` prints a script for sbatch --",
                                  name));
  }
  AddDefaults(settings, command);
  const std::string job_name = JobName(input, settings);
  if (!input.program.empty()) {
    if (!settings.Said("job-name", "SBATCH_JOB_NAME")) {
      command.request.arguments.push_back("--job-name=" + job_name);
    }
    command.request.script = MakeScript(input);
  }
  const std::string base = Below(input.directory, settings.Value("chdir", ""));
  const std::string_view user = Lookup(input.environment, "USER");
  AddFolder("--output", settings.Value("output", "SBATCH_OUTPUT"), base, job_name, user, command);
  AddFolder("--error", settings.Value("error", "SBATCH_ERROR"), base, job_name, user, command);
  if (input.script.has_value()) {
    command.request.arguments.push_back(input.script->path);
    command.request.arguments.insert(command.request.arguments.end(),
                                     input.script->arguments.begin(),
                                     input.script->arguments.end());
  }
  return command;
}

}  // namespace muster::slurm
