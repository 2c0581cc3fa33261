#pragma once

// Known last words of training programs: a peer that was lost or a watchdog that fired is never the
// code's own failure, and the machine must not be told so. Pure.

#include <string>
#include <string_view>
#include <vector>

#include "rendezvousd/protocol/messages.h"

namespace muster::agent {

// kNetwork or kHang if one of the lines is known, else kNone. The newest known line decides.
protocol::Cause CauseOfLines(const std::vector<std::string>& lines);

// The line that explains an end best: the newest known pattern, else the last line of a Python
// trace or an "error", else the last line; "" if there is none.
std::string ExplainingLine(const std::vector<std::string>& lines);

// The message inside the file that torch's record() writes to TORCHELASTIC_ERROR_FILE; "" if it is
// not one.
std::string MessageOfErrorFile(std::string_view json);

}  // namespace muster::agent
