#pragma once

// What `muster events` prints. Pure.

#include <string>

#include "launcher/cli/history.h"

namespace muster::cli {

// A line each: time, attempt and round, kind, text.
std::string EventsText(const History& history);
// The JSON lines as the daemon wrote them.
std::string EventLines(const History& history);

}  // namespace muster::cli
