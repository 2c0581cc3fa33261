#pragma once

// How ranks find each other: each tells the root, a thread of the process that made the unique id,
// where it listens; when all have come the root tells everyone all addresses. As in NCCL there is
// no time-out.

#include <string>
#include <vector>

#include "tests/standin/socket.h"
#include "trainer_runtime/comm/nccl_api.h"

namespace muster::standin {

using comm::nccl::Code;
using comm::nccl::UniqueId;

// Starts a root. It ends when all ranks have joined or StopRoot is called.
Code StartRoot(UniqueId* id);
// Of this process; does nothing for another's.
void StopRoot(const UniqueId& id);

// The addresses of all ranks in order. An error's text is in *text.
Code Meet(const UniqueId& id, int rank, int size, const Address& own, const Interrupt& interrupt,
          std::vector<Address>* all, std::string* text);

// What all ranks of the communicator with this id have in common.
std::uint64_t HashOf(const UniqueId& id);

}  // namespace muster::standin
