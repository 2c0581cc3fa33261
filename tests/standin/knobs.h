#pragma once

// What a test may make go wrong, by environment variables read when a communicator forms
// (README.md lists them).

#include <cstdint>
#include <string>

namespace muster::standin {

// One operation of one rank, counted from 1 in each communicator. Rank -1: nowhere.
struct Place {
  int rank = -1;
  std::int64_t operation = 0;
  bool Is(int this_rank, std::int64_t this_operation) const {
    return rank == this_rank && operation == this_operation;
  }
};

struct Knobs {
  int delay_ms = 0;
  Place hang, remote_error;
  int init_hang_rank = -1;
  bool revoke_fails = false;
  bool abort_hangs = false;
};

Knobs KnobsFromEnvironment();

// Remembers what ncclGetLastError gives, and writes a line as NCCL does if NCCL_DEBUG asks for it.
void Warn(const std::string& text);
const char* LastWarning();

}  // namespace muster::standin
