#include "launcher/slurm/environment_map.h"

namespace muster::slurm {

EnvironmentMap CaptureEnvironment(const char* const* entries) {
  EnvironmentMap environment;
  for (; entries != nullptr && *entries != nullptr; ++entries) {
    const std::string_view entry = *entries;
    const std::size_t equals = entry.find('=');
    if (equals == std::string_view::npos) continue;
    // The first of two entries of one name is what getenv finds.
    environment.emplace(entry.substr(0, equals), entry.substr(equals + 1));
  }
  return environment;
}

std::vector<std::string> EnvironmentEntries(const EnvironmentMap& environment) {
  std::vector<std::string> entries;
  entries.reserve(environment.size());
  for (const auto& [name, value] : environment) entries.push_back(name + "=" + value);
  return entries;
}

std::string_view Lookup(const EnvironmentMap& environment, std::string_view name) {
  const auto found = environment.find(name);
  return found == environment.end() ? std::string_view() : std::string_view(found->second);
}

}  // namespace muster::slurm
