#pragma once

// The environment as a value: captured once at the start of a program, then passed to the pure
// functions that read or change it. Nobody in launcher/slurm calls getenv.

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace muster::slurm {

using EnvironmentMap = std::map<std::string, std::string, std::less<>>;

// From the NAME=VALUE list of main's envp or `environ`. Entries without "=" are skipped.
EnvironmentMap CaptureEnvironment(const char* const* entries);
// NAME=VALUE, sorted by name, for exec.
std::vector<std::string> EnvironmentEntries(const EnvironmentMap& environment);
// The value, or "" if the variable is unset: Slurm never means anything by an empty one.
std::string_view Lookup(const EnvironmentMap& environment, std::string_view name);

}  // namespace muster::slurm
