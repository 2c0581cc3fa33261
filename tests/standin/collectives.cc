#include "tests/standin/collectives.h"

#include <cstring>
#include <deque>

#include "trainer_runtime/comm/summation_order.h"

namespace muster::standin {
namespace {

std::size_t Index(int rank) { return static_cast<std::size_t>(rank); }

void Copy(void* target, const void* source, std::size_t bytes) {
  if (bytes > 0 && target != source) std::memmove(target, source, bytes);
}

}  // namespace

const char* NameOf(Kind kind) {
  switch (kind) {
    case Kind::kAllReduce:
      return "AllReduce";
    case Kind::kBroadcast:
      return "Broadcast";
    case Kind::kReduce:
      return "Reduce";
    case Kind::kAllGather:
      return "AllGather";
    case Kind::kReduceScatter:
      return "ReduceScatter";
    case Kind::kSend:
      return "Send";
    case Kind::kReceive:
      return "Recv";
  }
  return "?";
}

std::byte* Collectives::Scratch(std::size_t bytes) {
  if (scratch_.size() < bytes) scratch_.resize(bytes);
  return scratch_.data();
}

Outcome Collectives::Run(const Operation& operation, std::uint64_t sequence,
                         const Interrupt& interrupt) {
  const Context context{{static_cast<std::uint32_t>(operation.kind), sequence}, interrupt};
  switch (operation.kind) {
    case Kind::kAllReduce:
      return AllReduce(operation, context);
    case Kind::kBroadcast:
      return Broadcast(operation, context);
    case Kind::kReduce:
      return Reduce(operation, context);
    case Kind::kAllGather:
      return AllGather(operation, context);
    case Kind::kReduceScatter:
      return ReduceScatter(operation, context);
    case Kind::kSend:
    case Kind::kReceive:
      break;
  }
  return {Code::kInternalError, "a send or receive outside of RunPairs"};
}

void Collectives::CombineRanks(void* target, const std::byte* parts, const Operation& operation) {
  const std::size_t bytes = operation.count * SizeOf(operation.type);
  const auto combine = [&](const void* left, int rank) {
    Combine(target, left, parts + Index(rank) * bytes, operation.count, operation.type,
            operation.reduction);
  };
  if (mesh_.size() == 1) {
    Copy(target, parts, bytes);
  } else {
    combine(parts, 1);
  }
  for (int rank = 2; rank < mesh_.size(); ++rank) combine(target, rank);
  if (operation.reduction == Reduction::kAverage) {
    Divide(target, operation.count, operation.type, mesh_.size());
  }
}

// ------------------------------------------------------------------------------- all-reduce

Outcome Collectives::AllReduce(const Operation& operation, const Context& context) {
  return comm::AddsDirectly(operation.count, mesh_.size()) || mesh_.size() == 1
             ? DirectAllReduce(operation, context)
             : RingAllReduce(operation, context);
}

Outcome Collectives::DirectAllReduce(const Operation& operation, const Context& context) {
  const std::size_t bytes = operation.count * SizeOf(operation.type);
  std::byte* const parts = Scratch(bytes * Index(mesh_.size()));
  Operation gather = operation;
  gather.target = parts;
  const Outcome gathered = AllGather(gather, context);
  if (gathered.ok()) CombineRanks(operation.target, parts, operation);
  return gathered;
}

// Chunk c goes around from rank c on: after size - 1 steps its sum is complete at rank c - 1, after
// as many again everyone has it.
Outcome Collectives::RingAllReduce(const Operation& operation, const Context& context) {
  const int rank = mesh_.rank(), size = mesh_.size();
  const int left = (rank + size - 1) % size, right = (rank + 1) % size;
  const std::size_t width = SizeOf(operation.type);
  auto* const target = static_cast<std::byte*>(operation.target);
  Copy(target, operation.source, operation.count * width);
  const auto begin = [&](int chunk) { return comm::ChunkBegin(operation.count, size, chunk); };
  const auto wrapped = [&](int chunk) { return (chunk % size + size) % size; };
  for (int step = 0; step < 2 * (size - 1); ++step) {
    const int sent = wrapped(rank - step), got = wrapped(rank - step - 1);
    const std::size_t sent_count = begin(sent + 1) - begin(sent);
    const std::size_t got_count = begin(got + 1) - begin(got);
    const bool adds = step < size - 1;
    std::byte* const own = target + begin(got) * width;
    std::byte* const place = adds ? Scratch(got_count * width) : own;
    std::vector<SendPart> sends;
    std::vector<ReceivePart> receives;
    if (sent_count > 0) sends.push_back({right, target + begin(sent) * width, sent_count * width});
    if (got_count > 0) receives.push_back({left, place, got_count * width});
    Outcome outcome = mesh_.Exchange(context.tag, sends, receives, context.interrupt);
    if (!outcome.ok()) return outcome;
    if (adds) Combine(own, place, own, got_count, operation.type, operation.reduction);
  }
  if (operation.reduction == Reduction::kAverage) {
    Divide(target, operation.count, operation.type, size);
  }
  return {};
}

// ------------------------------------------------------------------------------- the others

Outcome Collectives::Broadcast(const Operation& operation, const Context& context) {
  const std::size_t bytes = operation.count * SizeOf(operation.type);
  std::vector<SendPart> sends;
  std::vector<ReceivePart> receives;
  if (mesh_.rank() != operation.root) {
    receives.push_back({operation.root, operation.target, bytes});
  } else {
    for (int peer = 0; peer < mesh_.size(); ++peer) {
      if (peer != mesh_.rank()) sends.push_back({peer, operation.source, bytes});
    }
  }
  Outcome outcome = mesh_.Exchange(context.tag, sends, receives, context.interrupt);
  if (outcome.ok() && mesh_.rank() == operation.root) {
    Copy(operation.target, operation.source, bytes);
  }
  return outcome;
}

Outcome Collectives::Reduce(const Operation& operation, const Context& context) {
  const std::size_t bytes = operation.count * SizeOf(operation.type);
  if (mesh_.rank() != operation.root) {
    return mesh_.Exchange(context.tag, {{operation.root, operation.source, bytes}}, {},
                          context.interrupt);
  }
  std::byte* const parts = Scratch(bytes * Index(mesh_.size()));
  std::vector<ReceivePart> receives;
  for (int peer = 0; peer < mesh_.size(); ++peer) {
    if (peer != mesh_.rank()) receives.push_back({peer, parts + Index(peer) * bytes, bytes});
  }
  Copy(parts + Index(mesh_.rank()) * bytes, operation.source, bytes);
  const Outcome outcome = mesh_.Exchange(context.tag, {}, receives, context.interrupt);
  if (outcome.ok()) CombineRanks(operation.target, parts, operation);
  return outcome;
}

Outcome Collectives::AllGather(const Operation& operation, const Context& context) {
  const std::size_t bytes = operation.count * SizeOf(operation.type);
  auto* const all = static_cast<std::byte*>(operation.target);
  std::byte* const own = all + Index(mesh_.rank()) * bytes;
  Copy(own, operation.source, bytes);
  std::vector<SendPart> sends;
  std::vector<ReceivePart> receives;
  for (int peer = 0; peer < mesh_.size(); ++peer) {
    if (peer == mesh_.rank()) continue;
    sends.push_back({peer, own, bytes});
    receives.push_back({peer, all + Index(peer) * bytes, bytes});
  }
  return mesh_.Exchange(context.tag, sends, receives, context.interrupt);
}

Outcome Collectives::ReduceScatter(const Operation& operation, const Context& context) {
  const std::size_t bytes = operation.count * SizeOf(operation.type);
  const auto* const source = static_cast<const std::byte*>(operation.source);
  std::byte* const parts = Scratch(bytes * Index(mesh_.size()));
  std::vector<SendPart> sends;
  std::vector<ReceivePart> receives;
  for (int peer = 0; peer < mesh_.size(); ++peer) {
    if (peer == mesh_.rank()) continue;
    sends.push_back({peer, source + Index(peer) * bytes, bytes});
    receives.push_back({peer, parts + Index(peer) * bytes, bytes});
  }
  Copy(parts + Index(mesh_.rank()) * bytes, source + Index(mesh_.rank()) * bytes, bytes);
  const Outcome outcome = mesh_.Exchange(context.tag, sends, receives, context.interrupt);
  if (outcome.ok()) CombineRanks(operation.target, parts, operation);
  return outcome;
}

Outcome Collectives::RunPairs(const std::vector<Operation>& operations,
                              const Interrupt& interrupt) {
  std::vector<SendPart> sends;
  std::vector<ReceivePart> receives;
  std::deque<const Operation*> to_self;
  for (const Operation& operation : operations) {
    const std::size_t bytes = operation.count * SizeOf(operation.type);
    if (operation.root == mesh_.rank()) {
      if (operation.kind == Kind::kSend) to_self.push_back(&operation);
    } else if (operation.kind == Kind::kSend) {
      sends.push_back({operation.root, operation.source, bytes});
    } else {
      receives.push_back({operation.root, operation.target, bytes});
    }
  }
  for (const Operation& operation : operations) {
    if (operation.root != mesh_.rank() || operation.kind != Kind::kReceive) continue;
    if (to_self.empty() || to_self.front()->count != operation.count) {
      return {Code::kInvalidUsage, "a receive from this rank itself without its send"};
    }
    Copy(operation.target, to_self.front()->source, operation.count * SizeOf(operation.type));
    to_self.pop_front();
  }
  if (!to_self.empty())
    return {Code::kInvalidUsage, "a send to this rank itself without its receive"};
  return mesh_.Exchange({static_cast<std::uint32_t>(Kind::kSend), 0}, sends, receives, interrupt);
}

}  // namespace muster::standin
