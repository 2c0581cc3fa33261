#include "rendezvousd/protocol/messages.h"

namespace muster::protocol {

std::string_view ToString(Cause cause) {
  switch (cause) {
    case Cause::kNone:
      return "none";
    case Cause::kInitial:
      return "initial";
    case Cause::kCode:
      return "code";
    case Cause::kMemory:
      return "memory";
    case Cause::kNode:
      return "node";
    case Cause::kNetwork:
      return "network";
    case Cause::kHang:
      return "hang";
    case Cause::kPreemption:
      return "preemption";
    case Cause::kTimeLimit:
      return "time_limit";
    case Cause::kOperator:
      return "operator";
    case Cause::kAgent:
      return "agent";
    case Cause::kGrow:
      return "grow";
  }
  return "unknown";
}

std::string_view ToString(Outcome outcome) {
  switch (outcome) {
    case Outcome::kNone:
      return "none";
    case Outcome::kSucceeded:
      return "succeeded";
    case Outcome::kGoesOnLater:
      return "goes on later";
    case Outcome::kFailed:
      return "failed";
    case Outcome::kStopped:
      return "stopped";
  }
  return "unknown";
}

std::string_view ToString(OrderKind kind) {
  switch (kind) {
    case OrderKind::kWait:
      return "wait";
    case OrderKind::kPrepare:
      return "prepare";
    case OrderKind::kRun:
      return "run";
    case OrderKind::kClose:
      return "close";
  }
  return "unknown";
}

}  // namespace muster::protocol
