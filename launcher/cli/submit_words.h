#pragma once

// Which words of `muster submit` are sbatch's, which are `muster run`'s. Pure.

#include <map>
#include <string>
#include <vector>

#include "launcher/config/command_line.h"

namespace muster::cli {

// sbatch's options, but for those that muster's own table has.
config::ForeignShapes SbatchShapes();

// For sbatch. The job needs the world's nodes and the spares.
std::vector<std::string> SbatchWords(const config::CommandLine& line);
// {"/path/muster", "run", "--spares=1", "--"}: what was given on the command line. All else the
// job reads again from files and variables.
std::vector<std::string> RunWords(const config::CommandLine& line, const std::string& muster);
// The same as variables, for the runs of a script; not the nodes, which are the job's.
std::map<std::string, std::string> RunVariables(const config::CommandLine& line);

}  // namespace muster::cli
