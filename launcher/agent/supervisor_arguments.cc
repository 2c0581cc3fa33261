#include "launcher/agent/supervisor_arguments.h"

#include <unistd.h>

#include <array>

#include "common/text.h"
#include "proto/environment.h"

extern char** environ;

namespace muster::agent {
namespace {

constexpr std::size_t kNumbers = 3;
constexpr std::size_t kFolders = 6;

}  // namespace

std::vector<std::string> ToArguments(const SupervisorArguments& arguments) {
  std::vector<std::string> out = {std::to_string(arguments.socket),
                                  std::to_string(arguments.keeper),
                                  std::to_string(arguments.grandparent)};
  const std::vector<std::string> folders = ToArguments(arguments.folders);
  out.insert(out.end(), folders.begin(), folders.end());
  out.insert(out.end(), arguments.program.begin(), arguments.program.end());
  return out;
}

Result<SupervisorArguments> SupervisorArgumentsFrom(const std::vector<std::string>& arguments) {
  if (arguments.size() < kNumbers + kFolders) {
    return InvalidArgument("agent-supervisor is started by `muster agent`, not by hand");
  }
  SupervisorArguments out;
  MUSTER_ASSIGN_OR_RETURN(out.socket, ParseInteger<int>("socket", arguments[0], 0));
  MUSTER_ASSIGN_OR_RETURN(out.keeper, ParseInteger<pid_t>("keeper", arguments[1], 1));
  MUSTER_ASSIGN_OR_RETURN(out.grandparent, ParseInteger<pid_t>("grandparent", arguments[2], 0));
  const auto folders = arguments.begin() + kNumbers;
  MUSTER_ASSIGN_OR_RETURN(out.folders, FoldersFromArguments({folders, folders + kFolders}));
  out.program.assign(folders + kFolders, arguments.end());
  return out;
}

Environment CurrentEnvironment() {
  Environment environment;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::size_t equals = text.find('=');
    if (equals == std::string_view::npos || equals == 0) continue;
    environment.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return environment;
}

Result<Options> OptionsFromEnvironment(const Environment& environment,
                                       const std::vector<std::string>& program) {
  const std::string json = Lookup(environment, environment::kAgentOptions);
  if (json.empty()) {
    return InvalidArgument(Concat(environment::kAgentOptions,
                                  " is not set: `muster agent` is started by `muster run` or by "
                                  "the plugin, not by hand"));
  }
  MUSTER_ASSIGN_OR_RETURN(Options options, OptionsFromJson(json));
  if (!program.empty()) options.program = program;
  if (options.program.empty()) return InvalidArgument("the agent was given no program to run");
  return options;
}

Result<Place> OwnPlace(const Environment& environment, const Options& options) {
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) != 0) name[0] = '\0';
  return PlaceFromEnvironment(environment, options, name.data());
}

}  // namespace muster::agent
