#include "rendezvousd/core/quorum.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace muster::core {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;

TimePoint At(int second) { return TimePoint(seconds(second)); }

QuorumInput Base() {
  QuorumInput input;
  input.min_nodes = 2;
  input.max_nodes = 4;
  input.form_timeout = minutes(30);
  input.last_call = seconds(10);
  input.wait_node = seconds(30);
  input.first_agent_at = At(0);
  return input;
}

struct Case {
  const char* name;
  std::uint32_t candidates;
  std::uint32_t expected_missing;
  std::uint32_t previous_missing;
  bool had_round;
  int last_call_since;  // -1: none
  int now;
  QuorumDecision decision;
  int until;  // -1: none
};

TEST(Quorum, EnoughNodes) {
  const std::vector<Case> cases = {
      {"all expected are here", 4, 0, 0, false, -1, 5, QuorumDecision::kSeal, -1},
      {"more than the maximum", 6, 0, 0, false, -1, 5, QuorumDecision::kSeal, -1},
      {"maximum, others may come", 4, 1, 0, false, -1, 5, QuorumDecision::kLastCall, 15},
      {"maximum, last call over", 4, 1, 0, false, 5, 15, QuorumDecision::kSeal, -1},
      {"all previous members are back", 4, 3, 0, true, -1, 5, QuorumDecision::kSeal, -1},
      {"a living previous member is missing", 4, 1, 1, true, -1, 5, QuorumDecision::kLastCall, 15},
      {"minimum, others may come", 2, 2, 0, false, -1, 5, QuorumDecision::kLastCall, 15},
      {"minimum, in last call", 3, 1, 0, false, 5, 14, QuorumDecision::kLastCall, 15},
      {"minimum, last call over", 3, 1, 0, false, 5, 15, QuorumDecision::kSeal, -1},
      {"minimum, nobody else can come", 2, 0, 0, true, -1, 5, QuorumDecision::kSeal, -1},
      {"minimum, previous back, but others may come", 3, 1, 0, true, -1, 5,
       QuorumDecision::kLastCall, 15},
      {"too few", 1, 3, 0, false, -1, 5, QuorumDecision::kWait, 1800},
      {"too few, too long", 1, 3, 0, false, -1, 1800, QuorumDecision::kGiveUp, -1},
  };
  for (const Case& one : cases) {
    SCOPED_TRACE(one.name);
    QuorumInput input = Base();
    input.candidates = one.candidates;
    input.expected_missing = one.expected_missing;
    input.previous_missing = one.previous_missing;
    input.had_round = one.had_round;
    if (one.last_call_since >= 0) input.last_call_since = At(one.last_call_since);
    const Quorum quorum = DecideQuorum(input, At(one.now));
    EXPECT_EQ(quorum.decision, one.decision);
    EXPECT_EQ(quorum.until, one.until < 0 ? std::nullopt : std::optional(At(one.until)));
  }
}

TEST(Quorum, WithoutAnyAgentItWaitsForEver) {
  QuorumInput input = Base();
  input.first_agent_at.reset();
  const Quorum quorum = DecideQuorum(input, At(100'000));
  EXPECT_EQ(quorum.decision, QuorumDecision::kWait);
  EXPECT_EQ(quorum.until, std::nullopt);
}

TEST(Quorum, TheEndOfTheStepShortensTheWait) {
  QuorumInput input = Base();
  input.first_agent_at.reset();
  input.step_ended_at = At(50);
  EXPECT_EQ(DecideQuorum(input, At(59)).until, At(60));
  EXPECT_EQ(DecideQuorum(input, At(60)).decision, QuorumDecision::kGiveUp);
}

TEST(Quorum, AfterASealThePatienceIsForTheLostNode) {
  QuorumInput input = Base();
  input.sealed_before = true;
  input.candidates = 1;
  input.short_since = At(2000);  // long after form_timeout
  EXPECT_EQ(DecideQuorum(input, At(2029)).until, At(2030));
  EXPECT_EQ(DecideQuorum(input, At(2030)).decision, QuorumDecision::kGiveUp);
}

TEST(Quorum, ARestartsPauseHoldsTheSealBack) {
  QuorumInput input = Base();
  input.candidates = 4;
  input.not_before = At(20);
  EXPECT_EQ(DecideQuorum(input, At(19)).decision, QuorumDecision::kWait);
  EXPECT_EQ(DecideQuorum(input, At(19)).until, At(20));
  EXPECT_EQ(DecideQuorum(input, At(20)).decision, QuorumDecision::kSeal);
  // A last call runs within the pause, and a pause outlasts it.
  input.expected_missing = 1;
  EXPECT_EQ(DecideQuorum(input, At(5)).decision, QuorumDecision::kLastCall);
  EXPECT_EQ(DecideQuorum(input, At(5)).until, At(20));
}

// Whatever the counts: enough nodes that stay are sealed once last call is over.
TEST(Quorum, EnoughNodesAreAlwaysSealedInTheEnd) {
  QuorumInput input = Base();
  for (std::uint32_t candidates = 0; candidates < 7; ++candidates) {
    for (std::uint32_t expected = 0; expected < 4; ++expected) {
      for (std::uint32_t previous = 0; previous < 4; ++previous) {
        for (const bool had_round : {false, true}) {
          input.candidates = candidates;
          input.expected_missing = expected;
          input.previous_missing = previous;
          input.had_round = had_round;
          input.last_call_since = At(0);
          const QuorumDecision decision = DecideQuorum(input, At(10)).decision;
          EXPECT_EQ(decision == QuorumDecision::kSeal, candidates >= input.min_nodes);
        }
      }
    }
  }
}

TEST(Quorum, TheSentenceNamesWhoSinceWhenAndUntil) {
  QuorumInput input = Base();
  input.min_nodes = 4;
  input.candidates = 2;
  EXPECT_EQ(ExplainQuorum(input, {"n3", "n4"}, 2, At(0), At(12)),
            "waiting for n3, n4 (2 of 4 nodes are here) since 12 s, until 30 min");
  input.candidates = 1;
  EXPECT_EQ(ExplainQuorum(input, {"n2", "n3", "n4"}, 9, At(0), At(12)),
            "waiting for n2, n3, n4 and 6 more (1 of 4 nodes is here) since 12 s, until 30 min");
  EXPECT_EQ(ExplainQuorum(input, {}, 0, At(0), At(1)),
            "waiting for 3 more nodes (1 of 4 nodes is here) since 1 s, until 30 min");
}

}  // namespace
}  // namespace muster::core
