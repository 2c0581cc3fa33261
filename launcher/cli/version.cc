#include "launcher/host/version.h"
#include "common/text.h"
#include "launcher/cli/context.h"
#include "proto/environment.h"

namespace muster::cli {

int VersionCommand(const Words& words) {
  const bool json = words.size() == 1 && words[0] == "--json";
  Print(json ? Concat("{\"muster\": \"", host::Version(), "\"}\n")
             : Concat("muster ", host::Version(), "\n"));
  return exit_code::kDone;
}

}  // namespace muster::cli
