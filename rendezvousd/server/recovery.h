#pragma once

// From a journal to a machine: opens or creates the journal, steps what is in it (effects dropped),
// and says what the loop must know besides. Called once, before the loop starts.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/status.h"
#include "rendezvousd/core/machine.h"
#include "rendezvousd/protocol/config.h"
#include "rendezvousd/server/crash_mark.h"
#include "rendezvousd/server/journal.h"
#include "rendezvousd/server/machine_clock.h"

namespace muster::server {

struct Recovered {
  std::unique_ptr<Journal> journal;
  std::unique_ptr<CrashMark> crash_mark;
  std::unique_ptr<core::Machine> machine;
  MachineClock clock;
  bool restarted = false;                              // records were there
  core::Token next_token = 1;                          // above every one in the journal
  std::map<protocol::AgentId, std::string> addresses;  // from hellos, for the failure detector
  std::vector<std::uint64_t> set_aside;                // records that were skipped
};

// The journal at `path`, its mark at `path`.crash.
Result<Recovered> Recover(const std::string& path, const protocol::Config& config);

// Steps through a journal and gives one line for each record and effect, for people. Never writes.
Status PrintReplay(const std::string& path, const std::function<void(const std::string&)>& line);

}  // namespace muster::server
