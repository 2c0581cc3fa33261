#include "rendezvousd/core/phase.h"

namespace muster::core {

std::string_view ToString(Phase phase) {
  switch (phase) {
    case Phase::kForming:
      return "forming";
    case Phase::kLastCall:
      return "last call";
    case Phase::kPreparing:
      return "preparing";
    case Phase::kActive:
      return "active";
    case Phase::kDraining:
      return "draining";
    case Phase::kClosed:
      return "closed";
  }
  return "unknown";
}

}  // namespace muster::core
