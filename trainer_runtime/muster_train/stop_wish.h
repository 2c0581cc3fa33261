#pragma once

// StopWish: somebody wants this process to end soon: TERM or USR1, or a step named by the agent.
//
// The first signal asks; the second one of the same kind has its default effect. One object a
// process.

#include <cstdint>
#include <optional>
#include <string>

#include "trainer_runtime/session/session.h"

namespace muster::train_program {

// Handles SIGTERM and SIGUSR1 from now on.
void CatchStopSignals();
// The signal that came; 0: none.
int StopSignal();

// Why the training should stop once `step` is finished; nothing while it should go on.
std::optional<std::string> WantsStop(const session::Session& session, std::uint64_t step);

}  // namespace muster::train_program
