// The core may not include proto/: here its copies of the contract's numbers are compared.

#include <gtest/gtest.h>

#include "proto/environment.h"
#include "proto/local.h"
#include "rendezvousd/core/exit_codes.h"
#include "rendezvousd/core/phase.h"
#include "rendezvousd/core/request_kinds.h"

namespace muster::core {
namespace {

static_assert(kExitDone == exit_code::kDone);
static_assert(kExitCouldNotForm == exit_code::kCouldNotForm);
static_assert(kExitGoesOnLater == exit_code::kGoesOnLater);
static_assert(kExitBudgetSpent == exit_code::kBudgetSpent);
static_assert(kExitDeterministic == exit_code::kDeterministic);
static_assert(kExitStopped == exit_code::kStopped);
static_assert(kExitTimeLimit == exit_code::kTimeLimit);

static_assert(kRequestRequeue == static_cast<std::uint8_t>(local::RequestKind::kRequeue));
static_assert(kRequestStop == static_cast<std::uint8_t>(local::RequestKind::kStop));
static_assert(kRequestDone == static_cast<std::uint8_t>(local::RequestKind::kDone));

TEST(Phases, OnlyClosedHasNoWayOut) {
  for (int from = 0; from <= static_cast<int>(Phase::kClosed); ++from) {
    bool out = false;
    for (int to = 0; to <= static_cast<int>(Phase::kClosed); ++to) {
      const bool may = MayFollow(static_cast<Phase>(from), static_cast<Phase>(to));
      EXPECT_FALSE(may && from == to);
      out |= may;
    }
    EXPECT_EQ(out, from != static_cast<int>(Phase::kClosed));
  }
  EXPECT_TRUE(MayFollow(Phase::kActive, Phase::kForming));
  EXPECT_FALSE(MayFollow(Phase::kActive, Phase::kPreparing));
  EXPECT_FALSE(MayFollow(Phase::kForming, Phase::kActive));
  EXPECT_FALSE(MayFollow(Phase::kDraining, Phase::kForming));
}

}  // namespace
}  // namespace muster::core
