#pragma once

// NCCL's operations on a Mesh. Sums of all-reduces are taken in the order of
// trainer_runtime/comm/summation_order.h, the others in the order of ranks: all ranks get the same
// bits, every time, and the Gloo group's.

#include <vector>

#include "tests/standin/mesh.h"
#include "tests/standin/reduce.h"

namespace muster::standin {

enum class Kind : std::uint32_t {
  kAllReduce = 1,
  kBroadcast = 2,
  kReduce = 3,
  kAllGather = 4,
  kReduceScatter = 5,
  kSend = 6,
  kReceive = 7,
};
const char* NameOf(Kind kind);

struct Operation {
  Kind kind{};
  const void* source = nullptr;
  void* target = nullptr;
  std::size_t count = 0;  // as NCCL counts: of one rank's part, for gathers and scatters
  DataType type{};
  Reduction reduction = Reduction::kSum;
  int root = 0;  // or the peer
};

// Runs operations on one mesh. Scratch memory is kept.
class Collectives {
 public:
  explicit Collectives(Mesh& mesh) : mesh_(mesh) {}

  // Not for sends and receives.
  Outcome Run(const Operation& operation, std::uint64_t sequence, const Interrupt& interrupt);
  // Sends and receives of one group, together.
  Outcome RunPairs(const std::vector<Operation>& operations, const Interrupt& interrupt);

 private:
  struct Context {
    Tag tag;
    const Interrupt& interrupt;
  };
  Outcome AllReduce(const Operation& operation, const Context& context);
  Outcome DirectAllReduce(const Operation& operation, const Context& context);
  Outcome RingAllReduce(const Operation& operation, const Context& context);
  Outcome Broadcast(const Operation& operation, const Context& context);
  Outcome Reduce(const Operation& operation, const Context& context);
  Outcome AllGather(const Operation& operation, const Context& context);
  Outcome ReduceScatter(const Operation& operation, const Context& context);
  // Parts of all ranks, one after the other, into target in the order of ranks.
  void CombineRanks(void* target, const std::byte* parts, const Operation& operation);
  std::byte* Scratch(std::size_t bytes);

  Mesh& mesh_;
  std::vector<std::byte> scratch_;
};

}  // namespace muster::standin
