#include "launcher/cli/context.h"
#include "launcher/cli/man_pages.h"
#include "launcher/config/print.h"
#include "proto/environment.h"

namespace muster::cli {

int ConfigCommand(const Words& words) {
  const Result<Context> context = MakeContext(config::kConfig, words);
  if (!context.ok()) return UsageError(context.status());
  if (HelpAsked(*context, config::kConfig)) return exit_code::kDone;
  const config::Settings& settings = context->line.settings;
  if (!context->line.program.empty()) {
    return UsageError(InvalidArgument("muster config takes options only"));
  }
  if (settings.Flag("defaults")) {
    Print(config::DefaultsFile());
  } else if (settings.Given("man")) {
    Print(settings.Text("man") == "environment" ? EnvironmentPage() : MusterPage());
  } else if (settings.Flag("json")) {
    Print(config::SettingsJson(settings));
  } else {
    Print(config::SettingsText(settings));
  }
  return exit_code::kDone;
}

}  // namespace muster::cli
