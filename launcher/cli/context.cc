#include "launcher/cli/context.h"

#include <unistd.h>

#include <array>
#include <cstdio>
#include <filesystem>

#include "common/log.h"
#include "common/text.h"
#include "launcher/cli/usage.h"
#include "proto/environment.h"

namespace muster::cli {

Result<Context> MakeContext(unsigned command, const Words& words,
                            const config::ForeignShapes& foreign) {
  Context context;
  context.environment = config::CurrentEnvironment();
  std::error_code error;
  context.folder = std::filesystem::current_path(error).string();
  if (error) return FailedPrecondition("the current folder is gone; change into another one");
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  context.host_name = name.data();
  MUSTER_ASSIGN_OR_RETURN(
      config::Settings settings,
      config::LoadSettings(config::UsualFiles(context.environment, context.folder),
                           context.environment));
  MUSTER_ASSIGN_OR_RETURN(context.line,
                          config::ParseCommandLine(command, words, std::move(settings), foreign));
  return context;
}

bool HelpAsked(const Context& context, unsigned command) {
  if (!context.line.settings.Flag("help")) return false;
  Print(Concat(UsageText(command), "\n\noptions:\n", config::OptionsHelp(command)));
  return true;
}

Result<host::LaunchInput> ToLaunchInput(const Context& context) {
  host::LaunchInput input;
  input.options = config::ToRunOptions(context.line.settings);
  input.environment = context.environment;
  input.program = context.line.program;
  input.folder = context.folder;
  input.host_name = context.host_name;
  if (input.options.local) return input;
  MUSTER_ASSIGN_OR_RETURN(input.allocation,
                          slurm::ReadAllocation(context.environment, input.options.hosts));
  return input;
}

int UsageError(const Status& status) {
  LogError(status.message());
  return exit_code::kUsage;
}

void Print(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

}  // namespace muster::cli
