#pragma once

// The machine's events as bytes for the journal, and back. Decoding checks everything that the wire
// conversion checks: a damaged or foreign record is an error, never an abort.

#include <string>
#include <string_view>

#include "common/status.h"
#include "rendezvousd/core/machine.h"

namespace muster::server {

// REQUIRES: not a CallExpired.
std::string EncodeEvent(const core::Event& event);
Result<core::Event> DecodeEvent(std::string_view bytes);

}  // namespace muster::server
