#pragma once

// What sbatch's options look like, and reading them from words and from #SBATCH lines. Pure.

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"

namespace muster::slurm {

enum class SbatchValue {
  kNone,
  kRequired,
  kAttached,  // optional, and only as --name=value or -xvalue
};

struct SbatchOption {
  std::string_view name;  // the long one, without dashes
  char letter;            // 0: none
  SbatchValue value;
};

// Of 22.05 to 25.11. Options of plugins are not among them.
std::span<const SbatchOption> SbatchOptions();

struct SbatchSetting {
  std::string name;  // the long one; that of an unknown option as it was written
  std::optional<std::string> value;
};

// The settings in `words`: "--name", "--name=value", "--name value", "-xvalue", "-x value", and
// shortened names as getopt takes them. An unknown "--name" has a value only after "=".
// InvalidArgument for a missing value or a word that is no option.
Result<std::vector<SbatchSetting>> ParseSbatchWords(const std::vector<std::string>& words);

// The settings in the #SBATCH lines of a script, up to its first command, as sbatch reads them.
// `name` of the script is for errors, which name the line.
Result<std::vector<SbatchSetting>> ParseSbatchLines(std::string_view name, std::string_view script);

// The last setting of a name, nullptr if there is none.
const SbatchSetting* FindSetting(const std::vector<SbatchSetting>& settings, std::string_view name);

}  // namespace muster::slurm
