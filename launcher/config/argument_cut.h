#pragma once

// Where muster's own options end and the user's program begins.
//
// The cut is at `--`, or at the first word that is neither an option nor the value of one. Nothing
// right of it is looked at, so a program may have options of any name. Left of it every option is
// written as "--name" or "--name=value", so that values beginning with a dash survive.
//
// Pure. Used by config/command_line.h, and by `muster submit` with sbatch's options added.

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"

namespace muster::config {

enum class Arity {
  kNone,
  kRequired,
  kOptional,  // the next word is the value only if `accepts` says so; "--name=value" always
  kAttached,  // a value only as "--name=value" or "-xvalue", as with sbatch's --exclusive
};

struct OptionShape {
  std::string name;  // without dashes; empty where there is only a letter
  char letter = 0;   // 0: none
  Arity arity = Arity::kNone;
  std::string value_name = {};                         // for the error of a missing value
  std::function<bool(std::string_view)> accepts = {};  // kOptional
  int owner = 0;                                       // copied to the word; the caller's meaning
};

// The shape with this name or this letter, nullptr if there is none.
using FindShape = std::function<const OptionShape*(std::string_view name, char letter)>;

struct CutOption {
  const OptionShape* shape = nullptr;
  std::optional<std::string> value;
  // "--name=value", "--name", or "-xvalue" where there is only a letter.
  std::string Word() const;
};

struct Cut {
  std::vector<CutOption> options;
  bool dashes = false;               // the cut was at `--`
  std::vector<std::string> program;  // all that is right of it
};

// InvalidArgument for an unknown option or a missing value. `suggest` gives the known name nearest
// to a mistyped one, "" if none is near.
Result<Cut> CutArguments(const std::vector<std::string>& words, const FindShape& find,
                         const std::function<std::string(std::string_view)>& suggest);

}  // namespace muster::config
