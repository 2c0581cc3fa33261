#include "launcher/cli/submit_words.h"

#include "common/text.h"
#include "launcher/config/run_options.h"
#include "launcher/slurm/sbatch_options.h"

namespace muster::cli {
namespace {

using config::Option;
using config::Setting;

bool Given(const Setting* setting) {
  return setting != nullptr && setting->source == config::Source::kCommandLine;
}

template <typename Visit>
void ForGiven(const config::CommandLine& line, Visit&& visit) {
  for (const Option& option : config::AllOptions()) {
    const Setting* setting = line.settings.Get(option.name);
    if ((option.commands & config::kRun) == 0 || !option.configurable || !Given(setting)) continue;
    visit(option, *setting);
  }
}

}  // namespace

config::ForeignShapes SbatchShapes() {
  config::ForeignShapes shapes;
  for (const slurm::SbatchOption& option : slurm::SbatchOptions()) {
    const Option* own = config::FindOption(option.name);
    if (own != nullptr && (own->commands & config::kSubmit) != 0) continue;
    config::OptionShape shape;
    shape.name = option.name;
    shape.letter =
        config::FindLetter(option.letter, config::kSubmit) == nullptr ? option.letter : '\0';
    switch (option.value) {
      case slurm::SbatchValue::kNone:
        shape.arity = config::Arity::kNone;
        break;
      case slurm::SbatchValue::kRequired:
        shape.arity = config::Arity::kRequired;
        break;
      case slurm::SbatchValue::kAttached:
        shape.arity = config::Arity::kAttached;
        break;
    }
    shapes.push_back(std::move(shape));
  }
  return shapes;
}

std::vector<std::string> SbatchWords(const config::CommandLine& line) {
  std::vector<std::string> words;
  const config::RunOptions run = config::ToRunOptions(line.settings);
  if (run.nodes) {
    const int min = run.nodes->min + run.spares;
    const int max = run.nodes->max + run.spares;
    words.push_back(min == max ? Concat("--nodes=", min) : Concat("--nodes=", min, "-", max));
  }
  words.insert(words.end(), line.foreign.begin(), line.foreign.end());
  return words;
}

std::vector<std::string> RunWords(const config::CommandLine& line, const std::string& muster) {
  std::vector<std::string> words = {muster, "run"};
  ForGiven(line, [&](const Option& option, const Setting& setting) {
    if (option.kind == config::Kind::kFlag) {
      words.push_back(Concat("--", option.name));
      return;
    }
    for (const std::string& value : setting.values) {
      words.push_back(Concat("--", option.name, "=", value));
    }
  });
  words.emplace_back("--");
  return words;
}

std::map<std::string, std::string> RunVariables(const config::CommandLine& line) {
  std::map<std::string, std::string> variables;
  ForGiven(line, [&](const Option& option, const Setting& setting) {
    if (option.name == "nodes") return;
    variables[config::EnvironmentTwin(option)] = Join(setting.values, "\n");
  });
  return variables;
}

}  // namespace muster::cli
