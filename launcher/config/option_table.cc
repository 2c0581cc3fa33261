#include "launcher/config/option_table.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <numeric>
#include <utility>
#include <vector>

#include "common/text.h"
#include "launcher/config/man_text.h"

namespace muster::config {
namespace {

// A run is described by the same words wherever it is started, planned or submitted.
constexpr unsigned kOfRun = kRun | kSubmit | kPlan;
// One job's runs are read and operated by the same words too.
constexpr unsigned kOperating = kCancel | kStop | kRestart;
constexpr unsigned kOfJob = kStatus | kWhy | kLogs | kEvents | kOperating;

constexpr std::array kOptions = {
    Option{.name = "nodes",
           .letter = 'N',
           .kind = Kind::kNodes,
           .value_name = "MIN[:MAX]",
           .help = "Nodes of the world. With MAX the run is elastic: it starts with MIN nodes "
                   "and grows up to MAX.",
           .reason = "all allocated nodes but the spares, and never fewer: a changing world "
                     "changes batch size and learning rate",
           .commands = kOfRun},
    Option{.name = "spares",
           .kind = Kind::kCount,
           .value_name = "K",
           .default_value = "0",
           .help = "Nodes of the allocation that wait to replace a lost one.",
           .reason = "they cost money; `muster plan` says what a loss costs without",
           .commands = kOfRun},
    Option{.name = "workers-per-node",
           .kind = Kind::kCount,
           .value_name = "W",
           .help = "Training processes on each node.",
           .reason = "Slurm's tasks per node if above 1, else its GPUs per node, else 1: both "
                     "are habits of the field",
           .commands = kOfRun,
           .low = 1},
    Option{.name = "name",
           .kind = Kind::kName,
           .value_name = "S",
           .help = "Name of the run. With the same name and state folder a run goes on in "
                   "another job. Commands that read or operate a job take this run of it only.",
           .reason = "run1, run2, ... by order in the script",
           .commands = kOfRun | kOfJob},
    Option{.name = "state-dir",
           .kind = Kind::kPath,
           .value_name = "D",
           .help = "Shared folder for the run's state; the run makes its own folder D/NAME.",
           .reason = ".muster/JOB in the folder of submission, which compute nodes usually share",
           .commands = kOfRun | kOfJob},
    Option{.name = "local-dir",
           .kind = Kind::kPath,
           .value_name = "D",
           .help = "Folder on each node's own disk.",
           .reason = "SLURM_TMPDIR, else TMPDIR, else /tmp",
           .commands = kOfRun},
    Option{.name = "checkpoint-dir",
           .kind = Kind::kPath,
           .value_name = "D",
           .help = "Shared folder for checkpoints.",
           .reason = "checkpoints in the run's state folder",
           .commands = kOfRun},
    Option{.name = "log-dir",
           .kind = Kind::kPath,
           .value_name = "D",
           .help = "Shared folder for the workers' output, one file for each attempt, round and "
                   "rank.",
           .reason = "logs in the run's state folder",
           .commands = kOfRun},
    Option{.name = "lease",
           .kind = Kind::kTime,
           .value_name = "T",
           .default_value = "5s",
           .help = "Silence after which a node is suspected.",
           .reason = "hiccups of a network last less; a dead node stops the others no longer",
           .commands = kOfRun},
    Option{.name = "form-timeout",
           .kind = Kind::kTime,
           .value_name = "T",
           .default_value = "30m",
           .help = "How long the first world may take to come together, from the first node on.",
           .reason = "a container's first import takes minutes; idle nodes are the cost",
           .commands = kOfRun},
    Option{.name = "wait-node",
           .kind = Kind::kTime,
           .value_name = "T",
           .default_value = "30s",
           .help = "Patience for a lost node before the job is requeued.",
           .reason = "hiccups of a management network last 10 to 40 s",
           .commands = kOfRun},
    Option{.name = "last-call",
           .kind = Kind::kTime,
           .value_name = "T",
           .default_value = "10s",
           .help = "Wait for more nodes once MIN are there; elastic runs only.",
           .reason = "nodes of one job start within some seconds of each other",
           .commands = kOfRun},
    Option{.name = "stop-grace",
           .kind = Kind::kTime,
           .value_name = "T",
           .default_value = "20s",
           .help = "From TERM to KILL when workers are stopped.",
           .reason = "below Slurm's usual KillWait of 30 s, so that no node is drained",
           .commands = kOfRun},
    Option{.name = "srun",
           .kind = Kind::kList,
           .value_name = "OPTION",
           .help = "One more option for the srun that starts the agents; repeatable.",
           .reason = "muster asks for everything that the job has on each node",
           .commands = kOfRun},
    Option{.name = "env",
           .kind = Kind::kAssignment,
           .value_name = "NAME[=V]",
           .help = "Set a variable for the workers, or pass this shell's value on; repeatable.",
           .reason = "the environment is passed on as it is",
           .commands = kOfRun},
    Option{.name = "keep-env",
           .kind = Kind::kList,
           .value_name = "NAME",
           .help = "Keep your own value of a fact that muster sets, such as MASTER_ADDR; "
                   "repeatable.",
           .reason = "facts of the world change with every round",
           .commands = kOfRun},
    Option{.name = "hosts",
           .kind = Kind::kText,
           .value_name = "LIST",
           .help = "The job's nodes, instead of SLURM_JOB_NODELIST.",
           .reason = "Slurm's own list",
           .commands = kRun | kPlan},
    Option{.name = "local",
           .kind = Kind::kLocal,
           .value_name = "[N | HxN]",
           .help = "Run on this machine without Slurm: N workers, or H nodes played by this "
                   "machine with N workers each.",
           .reason = "a run belongs to a Slurm job",
           .commands = kRun | kPlan},
    Option{.name = "again",
           .kind = Kind::kFlag,
           .help = "Repeat a run that has already succeeded.",
           .reason = "a script that starts again after a requeue skips what is done",
           .commands = kRun | kPlan},
    Option{.name = "no-requeue",
           .kind = Kind::kFlag,
           .help = "Never requeue the job.",
           .reason = "a batch job with requeue allowed goes on elsewhere",
           .commands = kRun | kPlan},
    Option{.name = "show-output",
           .kind = Kind::kShow,
           .value_name = "all|rank0|N",
           .default_value = "8",
           .help = "Whose output is shown: every worker's, rank 0's and all failures, or every "
                   "worker's in worlds of up to N.",
           .reason = "more than eight voices at once are not readable",
           .commands = kOfRun},
    Option{.name = "dry-run",
           .kind = Kind::kFlag,
           .help = "Print the batch script and sbatch's command, submit nothing.",
           .commands = kSubmit,
           .configurable = false},
    Option{.name = "json",
           .kind = Kind::kFlag,
           .help = "Print JSON.",
           .commands = kPlan | kStatus | kWhy | kLogs | kEvents | kJobs | kConfig | kVersion,
           .configurable = false},
    Option{.name = "rank",
           .kind = Kind::kCount,
           .value_name = "R",
           .help = "Print all that rank R printed, instead of the list of files.",
           .commands = kLogs,
           .configurable = false},
    Option{.name = "first-failing",
           .kind = Kind::kFlag,
           .help = "Print what the rank that failed first printed in the round of its failure.",
           .commands = kLogs,
           .configurable = false},
    Option{.name = "follow",
           .kind = Kind::kFlag,
           .help = "Go on with what is printed from now on, until the run ends.",
           .commands = kLogs,
           .configurable = false},
    Option{.name = "defaults",
           .kind = Kind::kFlag,
           .help = "Print a commented file of all defaults.",
           .commands = kConfig,
           .configurable = false},
    Option{.name = "man",
           .kind = Kind::kPage,
           .value_name = "[muster | environment]",
           .help = "Print the source of a manual page: muster(1), or muster-environment(7).",
           .commands = kConfig,
           .configurable = false},
    Option{.name = "help",
           .letter = 'h',
           .kind = Kind::kFlag,
           .help = "Show this help.",
           .commands = ~0U,
           .configurable = false},
};

std::size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t substituted = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substituted});
    }
  }
  return row[b.size()];
}

// Words of `text` in lines of at most `width` columns.
std::vector<std::string> Wrap(std::string_view text, std::size_t width) {
  std::vector<std::string> lines(1);
  for (const std::string_view word : Split(text, ' ')) {
    if (!lines.back().empty() && lines.back().size() + 1 + word.size() > width) {
      lines.emplace_back();
    }
    if (!lines.back().empty()) lines.back() += ' ';
    lines.back() += word;
  }
  return lines;
}

constexpr auto kCommandNames = std::to_array<std::pair<unsigned, std::string_view>>({
    {kRun, "run"},
    {kSubmit, "submit"},
    {kPlan, "plan"},
    {kStatus, "status"},
    {kConfig, "config"},
    {kVersion, "version"},
    {kWhy, "why"},
    {kLogs, "logs"},
    {kEvents, "events"},
    {kJobs, "jobs"},
    {kCancel, "cancel"},
    {kStop, "stop"},
    {kRestart, "restart"},
});

std::string CommandNames(const Option& option) {
  std::vector<std::string> names;
  for (const auto& [bit, name] : kCommandNames) {
    if ((option.commands & bit) != 0) names.emplace_back(name);
  }
  return Join(names, ", ");
}

std::string Usage(const Option& option) {
  std::string usage;
  if (option.letter != 0) usage = Concat("-", option.letter, ", ");
  usage += Concat("--", option.name);
  if (!option.value_name.empty()) usage += Concat(" ", option.value_name);
  return usage;
}

}  // namespace

std::string_view CommandName(unsigned command) {
  for (const auto& [bit, name] : kCommandNames) {
    if (bit == command) return name;
  }
  return "";
}

std::span<const Option> AllOptions() { return kOptions; }

const Option* FindOption(std::string_view name) {
  const auto* found = std::ranges::find(kOptions, name, &Option::name);
  return found == kOptions.end() ? nullptr : found;
}

const Option* FindLetter(char letter, unsigned command) {
  const auto* found = std::ranges::find_if(kOptions, [&](const Option& option) {
    return letter != 0 && option.letter == letter && (option.commands & command) != 0;
  });
  return found == kOptions.end() ? nullptr : found;
}

std::string EnvironmentTwin(const Option& option) {
  std::string name = "MUSTER_";
  for (const char c : option.name) {
    name += c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  }
  return name;
}

bool ValueOptional(const Option& option) {
  return option.kind == Kind::kLocal || option.kind == Kind::kPage;
}
bool TakesValue(const Option& option) { return option.kind != Kind::kFlag; }
bool Repeatable(const Option& option) {
  return option.kind == Kind::kList || option.kind == Kind::kAssignment;
}

std::string NearestOption(std::string_view name, unsigned command) {
  // A third of the letters wrong is another word.
  std::size_t best = name.size() / 3 + 1;
  std::string nearest;
  for (const Option& option : kOptions) {
    if ((option.commands & command) == 0) continue;
    const bool prefix = name.size() > 2 && option.name.starts_with(name);
    const std::size_t distance = prefix ? 0 : EditDistance(name, option.name);
    if (distance < best) {
      best = distance;
      nearest = option.name;
    }
  }
  return nearest;
}

std::string OptionsHelp(unsigned command) {
  constexpr std::size_t kColumn = 28;
  constexpr std::size_t kWidth = 79 - kColumn;
  std::string out;
  for (const Option& option : kOptions) {
    if ((option.commands & command) == 0) continue;
    std::string line = Concat("  ", Usage(option));
    std::string help(option.help);
    if (!option.default_value.empty()) help += Concat(" [", option.default_value, "]");
    const std::vector<std::string> lines = Wrap(help, kWidth);
    std::size_t first = 0;
    if (line.size() + 2 <= kColumn) {
      line.resize(kColumn, ' ');
      line += lines[0];
      first = 1;
    }
    out += line + "\n";
    for (std::size_t i = first; i < lines.size(); ++i) {
      out += std::string(kColumn, ' ') + lines[i] + "\n";
    }
  }
  return out;
}

std::string OptionsManPage(unsigned command) {
  std::string out = ".SH OPTIONS\n";
  for (const Option& option : kOptions) {
    if ((option.commands & command) == 0) continue;
    std::string text = ManText(option.help);
    if (!option.reason.empty()) {
      const std::string_view value = option.default_value;
      text +=
          "\n" + ManText(Concat("Default: ", value, value.empty() ? "" : "; ", option.reason, "."));
    }
    if (option.configurable) text += Concat("\nVariable: ", EnvironmentTwin(option), ".");
    if (option.commands != ~0U) text += Concat("\nCommands: ", CommandNames(option), ".");
    out += ManEntry(Usage(option), text);
  }
  return out;
}

}  // namespace muster::config
