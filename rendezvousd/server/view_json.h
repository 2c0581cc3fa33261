#pragma once

// What the state folder's files hold. The keys are read by `muster status`, `jobs`, `why`, `report`
// and by people's scripts: they are only ever added to. Pure.

#include <string>

#include "rendezvousd/protocol/messages.h"

namespace muster::server {

std::string StatusJson(const protocol::RunView& view, std::int64_t unix_ms);
std::string EventJson(const protocol::EventRecord& record);  // one line, without the line feed
std::string VerdictJson(const protocol::RunView& view, std::int64_t unix_ms);
std::string HandoverJson(const protocol::RunView& view, std::int64_t unix_ms);

}  // namespace muster::server
