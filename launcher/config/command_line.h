#pragma once

// A command's arguments: muster's options left of the cut, the user's program right of it.
//
// Every command goes through here, so that -N4, --nodes=4 and --nodes 4 mean the same everywhere.

#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"
#include "launcher/config/argument_cut.h"
#include "launcher/config/settings.h"

namespace muster::config {

struct CommandLine {
  Settings settings;
  std::vector<std::string> program;
  bool dashes = false;  // the cut was at `--`
  // Options of another program (`muster submit`: sbatch's), each ready to be passed on.
  std::vector<std::string> foreign;
};

// What another program's options look like; owner is ignored.
using ForeignShapes = std::vector<OptionShape>;

// `settings` as LoadSettings gave them. An option that both programs have is muster's.
Result<CommandLine> ParseCommandLine(unsigned command, const std::vector<std::string>& words,
                                     Settings settings, const ForeignShapes& foreign = {});

}  // namespace muster::config
