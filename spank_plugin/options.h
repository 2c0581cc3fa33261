#pragma once

// `--muster[=LIST]` and its environment twin MUSTER: whether a step is muster's business, and the
// options for its host. Pure; C++ standard library only. Used by srun_side.cc and its tests.
//
//   --muster                       on, with defaults
//   --muster=name=exp1,lease=2s    on, each item as an option of `muster run` without its dashes
//   MUSTER=1, MUSTER=name=exp1     the same by environment; MUSTER=0 or empty: off

#include <string>
#include <string_view>
#include <vector>

namespace muster::spank {

struct Wanted {
  bool on = false;
  // For `muster host`: "--name=exp1", "--lease=2s".
  std::vector<std::string> arguments;
  // Not empty: the list cannot be read; one sentence for the user.
  std::string problem;
};

// An item is a name of lower-case letters, digits and dashes, with "=value" or without. A comma
// inside a value is written "\,".
Wanted ParseOptions(std::string_view text);

}  // namespace muster::spank
