#pragma once

// The one table of muster's options. It makes the command line's options, the help of every
// command, the names in configuration files, the MUSTER_* twins, `muster config` and the man page.
//
// Constant data and pure functions over it. Used by config and by the commands.

#include <span>
#include <string>
#include <string_view>

namespace muster::config {

enum class Kind {
  kFlag,        // no value on the command line; yes or no elsewhere
  kText,        // anything but the empty text
  kName,        // letters, digits, '.', '_', '-'; begins with a letter or digit
  kPath,        // a folder or file
  kList,        // repeatable, order kept
  kCount,       // whole number from Option::low
  kTime,        // common/time.h
  kNodes,       // MIN[:MAX]
  kLocal,       // [N | HxN], may be left out
  kShow,        // all, rank0 or a number
  kAssignment,  // repeatable NAME[=VALUE]
  kPage,        // muster or environment, may be left out
};

// Which commands know an option; a bit each.
enum Command : unsigned {
  kNoCommand = 0,
  kRun = 1u << 0U,
  kSubmit = 1u << 1U,
  kPlan = 1u << 2U,
  kStatus = 1u << 3U,
  kConfig = 1u << 4U,
  kVersion = 1u << 5U,
  kWhy = 1u << 6U,
  kLogs = 1u << 7U,
  kEvents = 1u << 8U,
  kJobs = 1u << 9U,
  kCancel = 1u << 10U,
  kStop = 1u << 11U,
  kRestart = 1u << 12U,
};

// "status" for its bit.
std::string_view CommandName(unsigned command);

struct Option {
  std::string_view name;  // without dashes
  char letter = 0;        // 0: none
  Kind kind = Kind::kText;
  std::string_view value_name = {};     // "MIN[:MAX]", for help
  std::string_view default_value = {};  // "": none
  std::string_view help = {};
  std::string_view reason = {};  // why this default
  unsigned commands = 0;
  bool configurable = true;  // may stand in files and in the environment
  int low = 0;               // kCount: the smallest value
};

std::span<const Option> AllOptions();
// nullptr if there is none.
const Option* FindOption(std::string_view name);
const Option* FindLetter(char letter, unsigned command);

// "MUSTER_STATE_DIR" for "state-dir".
std::string EnvironmentTwin(const Option& option);
// True where the option may be given without a value.
bool ValueOptional(const Option& option);
bool TakesValue(const Option& option);
bool Repeatable(const Option& option);
// The known name nearest to a mistyped one within the command, "" if none is near.
std::string NearestOption(std::string_view name, unsigned command);

// The help's list of options of a command, wrapped at 79 columns.
std::string OptionsHelp(unsigned command);
// The OPTIONS section of muster(1), in man's own macros.
std::string OptionsManPage(unsigned command);

}  // namespace muster::config
