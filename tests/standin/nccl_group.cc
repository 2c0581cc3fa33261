#include "tests/standin/nccl_group.h"

#include <utility>

namespace muster::standin {
namespace {

struct Part {
  std::shared_ptr<Communicator> communicator;
  comm::cuda::Stream stream = nullptr;
  std::vector<Operation> operations;
};

thread_local int depth = 0;
thread_local std::vector<Part> parts;
thread_local std::vector<std::shared_ptr<Communicator>> forming;

Code Worse(Code left, Code right) { return left == Code::kSuccess ? right : left; }

}  // namespace

Code Enqueue(const std::shared_ptr<Communicator>& communicator, comm::cuda::Stream stream,
             const Operation& operation) {
  if (depth == 0) return communicator->Launch(stream, {operation});
  for (Part& part : parts) {
    if (part.communicator == communicator && part.stream == stream) {
      part.operations.push_back(operation);
      return Code::kSuccess;
    }
  }
  parts.push_back({communicator, stream, {operation}});
  return Code::kSuccess;
}

Code AwaitForming(const std::shared_ptr<Communicator>& communicator) {
  if (!communicator->settings().blocking) return Code::kInProgress;
  if (depth == 0) return communicator->WaitFormed();
  forming.push_back(communicator);
  return Code::kSuccess;
}

Code StartGroup() {
  ++depth;
  return Code::kSuccess;
}

Code EndGroup() {
  if (depth == 0) {
    Warn("ncclGroupEnd: not in a group call.");
    return Code::kInvalidUsage;
  }
  if (--depth > 0) return Code::kSuccess;
  Code result = Code::kSuccess;
  for (const auto& communicator : std::exchange(forming, {})) {
    result = Worse(result, communicator->WaitFormed());
  }
  for (Part& part : std::exchange(parts, {})) {
    result = Worse(result, part.communicator->Launch(part.stream, std::move(part.operations)));
  }
  return result;
}

}  // namespace muster::standin
