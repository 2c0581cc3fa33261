#pragma once

// What `muster cancel`, `stop` and `restart` share: they find one running run, say what will be
// done to it, ask its daemon through the operator's access file, and wait until it has accepted.
//
// Exit codes: 0 accepted; 64 wrong words or an unknown job; 1 refused, ended, or no answer.

#include <string>
#include <vector>

#include "launcher/cli/command.h"
#include "launcher/host/state_folder.h"
#include "rendezvousd/protocol/messages.h"

namespace muster::cli {

struct Operation {
  unsigned command = 0;
  protocol::OperatorAction action = protocol::OperatorAction::kCancel;
  std::string effect;  // "its workers get TERM ..."
};

int Operate(const Operation& operation, const Words& words);

// The one running run of these, or FailedPrecondition: none runs, with how the newest ended; or
// several do.
Result<std::string> ChooseRunning(const std::string& verb, const std::vector<std::string>& folders);
// Whether the daemon's view allows it; FailedPrecondition says why not.
Status CheckAllowed(const Operation& operation, const protocol::RunView& view);
// What to do where the daemon cannot be reached.
std::string Instead(const std::string& run_folder, const host::OperatorAccess& access);

}  // namespace muster::cli
