#pragma once

// The manual pages, made from the tables that the programs themselves use: commands, options, exit
// codes, the worker's environment. Source in man's own macros; `muster config --man` prints it.

#include <string>

namespace muster::cli {

std::string MusterPage();       // muster(1)
std::string EnvironmentPage();  // muster-environment(7)

}  // namespace muster::cli
