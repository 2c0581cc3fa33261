#include "launcher/slurm/sbatch_options.h"

#include <algorithm>

#include "common/text.h"

namespace muster::slurm {
namespace {

constexpr SbatchValue kNone = SbatchValue::kNone;
constexpr SbatchValue kRequired = SbatchValue::kRequired;
constexpr SbatchValue kAttached = SbatchValue::kAttached;

constexpr SbatchOption kOptions[] = {
    {"account", 'A', kRequired},
    {"acctg-freq", 0, kRequired},
    {"array", 'a', kRequired},
    {"batch", 0, kRequired},
    {"bb", 0, kRequired},
    {"bbf", 0, kRequired},
    {"begin", 'b', kRequired},
    {"chdir", 'D', kRequired},
    {"cluster-constraint", 0, kRequired},
    {"clusters", 'M', kRequired},
    {"comment", 0, kRequired},
    {"consolidate-segments", 0, kNone},
    {"constraint", 'C', kRequired},
    {"container", 0, kRequired},
    {"container-id", 0, kRequired},
    {"contiguous", 0, kNone},
    {"core-spec", 'S', kRequired},
    {"cores-per-socket", 0, kRequired},
    {"cpu-freq", 0, kRequired},
    {"cpus-per-gpu", 0, kRequired},
    {"cpus-per-task", 'c', kRequired},
    {"deadline", 0, kRequired},
    {"delay-boot", 0, kRequired},
    {"dependency", 'd', kRequired},
    {"distribution", 'm', kRequired},
    {"error", 'e', kRequired},
    {"exclude", 'x', kRequired},
    {"exclusive", 0, kAttached},
    {"export", 0, kRequired},
    {"export-file", 0, kRequired},
    {"extra", 0, kRequired},
    {"extra-node-info", 'B', kRequired},
    {"get-user-env", 0, kAttached},
    {"gid", 0, kRequired},
    {"gpu-bind", 0, kRequired},
    {"gpu-freq", 0, kRequired},
    {"gpus", 'G', kRequired},
    {"gpus-per-node", 0, kRequired},
    {"gpus-per-socket", 0, kRequired},
    {"gpus-per-task", 0, kRequired},
    {"gres", 0, kRequired},
    {"gres-flags", 0, kRequired},
    {"help", 'h', kNone},
    {"hint", 0, kRequired},
    {"hold", 'H', kNone},
    {"ignore-pbs", 0, kNone},
    {"input", 'i', kRequired},
    {"job-name", 'J', kRequired},
    {"kill-on-invalid-dep", 0, kRequired},
    {"licenses", 'L', kRequired},
    {"mail-type", 0, kRequired},
    {"mail-user", 0, kRequired},
    {"mcs-label", 0, kRequired},
    {"mem", 0, kRequired},
    {"mem-bind", 0, kRequired},
    {"mem-per-cpu", 0, kRequired},
    {"mem-per-gpu", 0, kRequired},
    {"mincpus", 0, kRequired},
    {"network", 0, kRequired},
    {"nice", 0, kAttached},
    {"no-kill", 'k', kAttached},
    {"no-requeue", 0, kNone},
    {"nodefile", 'F', kRequired},
    {"nodelist", 'w', kRequired},
    {"nodes", 'N', kRequired},
    {"ntasks", 'n', kRequired},
    {"ntasks-per-core", 0, kRequired},
    {"ntasks-per-gpu", 0, kRequired},
    {"ntasks-per-node", 0, kRequired},
    {"ntasks-per-socket", 0, kRequired},
    {"oom-kill-step", 0, kAttached},
    {"open-mode", 0, kRequired},
    {"output", 'o', kRequired},
    {"overcommit", 'O', kNone},
    {"oversubscribe", 's', kNone},
    {"parsable", 0, kNone},
    {"partition", 'p', kRequired},
    {"power", 0, kRequired},
    {"prefer", 0, kRequired},
    {"priority", 0, kRequired},
    {"profile", 0, kRequired},
    {"propagate", 0, kAttached},
    {"qos", 'q', kRequired},
    {"quiet", 'Q', kNone},
    {"reboot", 0, kNone},
    {"requeue", 0, kAttached},
    {"reservation", 0, kRequired},
    {"resv-ports", 0, kAttached},
    {"segment", 0, kRequired},
    {"signal", 0, kRequired},
    {"sockets-per-node", 0, kRequired},
    {"spread-job", 0, kNone},
    {"spread-segments", 0, kNone},
    {"stepmgr", 0, kNone},
    {"switches", 0, kRequired},
    {"test-only", 0, kNone},
    {"thread-spec", 0, kRequired},
    {"threads-per-core", 0, kRequired},
    {"time", 't', kRequired},
    {"time-min", 0, kRequired},
    {"tmp", 0, kRequired},
    {"tres-bind", 0, kRequired},
    {"tres-per-task", 0, kRequired},
    {"uid", 0, kRequired},
    {"usage", 0, kNone},
    {"use-min-nodes", 0, kNone},
    {"verbose", 'v', kNone},
    {"version", 'V', kNone},
    {"wait", 'W', kNone},
    {"wait-all-nodes", 0, kRequired},
    {"wckey", 0, kRequired},
    {"wrap", 0, kRequired},
};

// By its name, or the only one that begins with it.
const SbatchOption* FindName(std::string_view name) {
  const SbatchOption* found = nullptr;
  int count = 0;
  for (const SbatchOption& option : kOptions) {
    if (option.name == name) return &option;
    if (!name.empty() && option.name.starts_with(name)) {
      found = &option;
      ++count;
    }
  }
  return count == 1 ? found : nullptr;
}

const SbatchOption* FindLetter(char letter) {
  for (const SbatchOption& option : kOptions) {
    if (option.letter != 0 && option.letter == letter) return &option;
  }
  return nullptr;
}

Status NoValue(std::string_view word) {
  return InvalidArgument(Concat("sbatch option ", Quote(word), " needs a value"));
}

// Reads words[at], and words[at + 1] if that is its value; moves `at` behind them.
Status ReadWord(const std::vector<std::string>& words, std::size_t& at,
                std::vector<SbatchSetting>& settings) {
  const std::string_view word = words[at++];
  const auto next_word = [&](SbatchSetting setting) -> Status {
    if (at >= words.size()) return NoValue(word);
    setting.value = words[at++];
    settings.push_back(std::move(setting));
    return OkStatus();
  };
  if (word.starts_with("--") && word.size() > 2) {
    const std::string_view body = word.substr(2);
    const std::size_t equals = body.find('=');
    const std::string_view name = body.substr(0, equals);
    const SbatchOption* option = FindName(name);
    SbatchSetting setting{.name = std::string(option != nullptr ? option->name : name),
                          .value = {}};
    if (equals != std::string_view::npos) {
      setting.value = body.substr(equals + 1);
    } else if (option != nullptr && option->value == kRequired) {
      return next_word(std::move(setting));
    }
    settings.push_back(std::move(setting));
    return OkStatus();
  }
  if (!word.starts_with('-') || word == "--" || word == "-") {
    return InvalidArgument(Concat(Quote(word), " is no option of sbatch"));
  }
  for (std::size_t i = 1; i < word.size(); ++i) {
    const SbatchOption* option = FindLetter(word[i]);
    if (option == nullptr) {
      return InvalidArgument(Concat("sbatch has no option -", word[i], " (in ", Quote(word), ")"));
    }
    SbatchSetting setting{.name = std::string(option->name), .value = {}};
    if (option->value != kNone) {
      if (i + 1 < word.size()) {
        setting.value = word.substr(i + 1);
        i = word.size();
      } else if (option->value == kRequired) {
        return next_word(std::move(setting));
      }
    }
    settings.push_back(std::move(setting));
  }
  return OkStatus();
}

// The words of one #SBATCH line: quotes and backslashes as in a shell, " #" begins a comment.
Result<std::vector<std::string>> CutLine(std::string_view line) {
  std::vector<std::string> words;
  std::string word;
  bool in_word = false;
  char quote = 0;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (quote != 0) {
      if (c == quote) {
        quote = 0;
      } else if (c == '\\' && quote == '"' && i + 1 < line.size()) {
        word += line[++i];
      } else {
        word += c;
      }
    } else if (c == '"' || c == '\'') {
      quote = c;
      in_word = true;
    } else if (c == '\\' && i + 1 < line.size()) {
      word += line[++i];
      in_word = true;
    } else if (c == ' ' || c == '\t' || c == '\r') {
      if (in_word) words.push_back(std::move(word));
      word.clear();
      in_word = false;
    } else if (c == '#' && !in_word) {
      break;
    } else {
      word += c;
      in_word = true;
    }
  }
  if (quote != 0) return InvalidArgument(Concat("a quote (", quote, ") is not closed"));
  if (in_word) words.push_back(std::move(word));
  return words;
}

}  // namespace

std::span<const SbatchOption> SbatchOptions() { return kOptions; }

Result<std::vector<SbatchSetting>> ParseSbatchWords(const std::vector<std::string>& words) {
  std::vector<SbatchSetting> settings;
  for (std::size_t at = 0; at < words.size();) {
    MUSTER_RETURN_IF_ERROR(ReadWord(words, at, settings));
  }
  return settings;
}

Result<std::vector<SbatchSetting>> ParseSbatchLines(std::string_view name,
                                                    std::string_view script) {
  constexpr std::string_view kMark = "#SBATCH";
  std::vector<SbatchSetting> settings;
  int number = 0;
  for (const std::string_view line : Split(script, '\n')) {
    ++number;
    const std::string_view text = Trim(line);
    if (text.empty()) continue;
    // From the first command on, a #SBATCH line is a comment.
    if (!text.starts_with('#')) break;
    if (!line.starts_with(kMark) || line.size() == kMark.size()) continue;
    if (line[kMark.size()] != ' ' && line[kMark.size()] != '\t') continue;
    const std::string place = Concat(name, ", line ", number);
    const auto words = CutLine(line.substr(kMark.size()));
    if (!words.ok()) return words.status().With(place);
    // Begins the next component of a heterogeneous job; muster's run is in the first.
    if (!words.value().empty() && (words.value()[0] == "hetjob" || words.value()[0] == "packjob")) {
      break;
    }
    Result<std::vector<SbatchSetting>> found = ParseSbatchWords(words.value());
    if (!found.ok()) return found.status().With(place);
    for (SbatchSetting& setting : found.value()) settings.push_back(std::move(setting));
  }
  return settings;
}

const SbatchSetting* FindSetting(const std::vector<SbatchSetting>& settings,
                                 std::string_view name) {
  for (auto setting = settings.rbegin(); setting != settings.rend(); ++setting) {
    if (setting->name == name) return &*setting;
  }
  return nullptr;
}

}  // namespace muster::slurm
