#pragma once

// The join secret leaves the environment before anything else happens: not only the variable, but
// its bytes in the block that the kernel shows as /proc/PID/environ.
//
// Call first in the keeper, while it has one thread.

#include <string>

namespace muster::agent {

// The secret, or "" if there was none. Every copy in the environment is overwritten and removed.
std::string TakeJoinSecret();

// Overwrites a secret that is no longer needed.
void Wipe(std::string* secret);

}  // namespace muster::agent
