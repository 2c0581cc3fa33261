#pragma once

// The phases of a run and the one table of transitions between them. Nothing else in the machine
// decides whether a phase may follow another.

#include <array>
#include <cstdint>
#include <string_view>

namespace muster::core {

enum class Phase : std::uint8_t {
  kForming,    // agents gather; after a failure: gather again
  kLastCall,   // enough nodes are there; a short wait for the rest
  kPreparing,  // sealed: tentative ranks are out, agents make themselves ready
  kActive,     // the round runs
  kDraining,   // close orders are out; agents end their workers and say goodbye
  kClosed,     // the verdict is final and everybody is gone or given up
};
std::string_view ToString(Phase phase);  // "forming", "last call", ...

struct Transition {
  Phase from;
  Phase to;
  std::string_view when;
};

inline constexpr std::array<Transition, 12> kTransitions = {{
    {Phase::kForming, Phase::kLastCall, "enough nodes are there, but not all that may come"},
    {Phase::kForming, Phase::kPreparing, "all that may come are there"},
    {Phase::kForming, Phase::kDraining, "the world cannot form, or somebody ends the run"},
    {Phase::kLastCall, Phase::kForming, "too few nodes are left"},
    {Phase::kLastCall, Phase::kPreparing, "the last one came, or the wait is over"},
    {Phase::kLastCall, Phase::kDraining, "somebody ends the run"},
    {Phase::kPreparing, Phase::kActive, "every agent of the roster is ready"},
    {Phase::kPreparing, Phase::kForming, "an agent was lost, late or has a problem"},
    {Phase::kPreparing, Phase::kDraining, "somebody ends the run"},
    {Phase::kActive, Phase::kForming, "a member failed and may be tried again"},
    {Phase::kActive, Phase::kDraining, "all ranks are done, or there is no other try"},
    {Phase::kDraining, Phase::kClosed, "everybody is gone, and a requeue is answered"},
}};

constexpr bool MayFollow(Phase from, Phase to) {
  for (const Transition& transition : kTransitions) {
    if (transition.from == from && transition.to == to) return true;
  }
  return false;
}

}  // namespace muster::core
