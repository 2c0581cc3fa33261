#include "launcher/host/view_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::host {
namespace {

using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

protocol::RunView Waiting(const std::string& whom) {
  protocol::RunView view;
  view.waiting_for = whom;
  return view;
}

protocol::RunView Running(std::uint32_t round) {
  protocol::RunView view;
  view.fence = {0, round};
  view.world_size = 2;
  for (int i = 0; i < 2; ++i) {
    protocol::AgentView agent;
    agent.key.node = i == 0 ? "a" : "b";
    agent.node_rank = i;
    agent.state = "in round";
    view.agents.push_back(agent);
  }
  return view;
}

TEST(ViewWatch, AQuickStartIsOneLine) {
  ViewWatch watch;
  TimePoint now;
  EXPECT_THAT(watch.Next(Waiting("2 nodes"), now), IsEmpty());
  EXPECT_THAT(watch.Next(Waiting("1 node"), now + seconds(1)), IsEmpty());
  EXPECT_THAT(watch.Next(Running(1), now + seconds(2)),
              ElementsAre("round 1: 2 workers on 2 nodes"));
  EXPECT_THAT(watch.Next(Running(1), now + seconds(3)), IsEmpty());
  EXPECT_FALSE(watch.trouble());
}

TEST(ViewWatch, ALongWaitIsSaidOnceAMinuteAndWhenItChanges) {
  ViewWatch watch;
  const TimePoint now;
  const auto at = [&](int second, const std::string& sentence) {
    return watch.Next(Waiting(sentence), now + seconds(second));
  };
  EXPECT_THAT(at(0, "waiting for n3 since 0 s, until 30 s"), IsEmpty());
  EXPECT_THAT(at(3, "waiting for n3 since 3 s, until 30 s"),
              ElementsAre("waiting for n3 since 3 s, until 30 s"));
  EXPECT_THAT(at(20, "waiting for n3 since 20 s, until 30 s"), IsEmpty());
  EXPECT_THAT(at(63, "waiting for n3 since 63 s"), ElementsAre("waiting for n3 since 63 s"));
  EXPECT_THAT(at(64, "waiting for n4 since 1 s"), IsEmpty()) << "not every second";
  EXPECT_THAT(at(68, "waiting for n4 since 5 s"), ElementsAre("waiting for n4 since 5 s"));
}

TEST(ViewWatch, ALaterRoundSaysWhy) {
  ViewWatch watch;
  watch.Next(Running(1), TimePoint());
  protocol::RunView view = Running(2);
  view.last_blame.text = "rank 1 on b was killed by signal 9 (SIGKILL)";
  EXPECT_THAT(watch.Next(view, TimePoint()), ElementsAre(HasSubstr("because rank 1 on b")));
}

TEST(ViewWatch, ASuspectIsTrouble) {
  ViewWatch watch;
  protocol::RunView view = Running(1);
  view.agents[0].state = "suspect since 3 s";
  watch.Next(view, TimePoint());
  EXPECT_TRUE(watch.trouble());
  watch.Next(Running(1), TimePoint());
  EXPECT_FALSE(watch.trouble());
}

TEST(ViewWatch, TheVerdictIsOneSentence) {
  protocol::Verdict verdict;
  verdict.outcome = protocol::Outcome::kSucceeded;
  EXPECT_EQ(VerdictSentence(verdict), "the run succeeded");
  verdict.outcome = protocol::Outcome::kFailed;
  verdict.blame.text = "rank 2 on n2 ended with exit code 7";
  EXPECT_EQ(VerdictSentence(verdict), "the run failed: rank 2 on n2 ended with exit code 7");
}

}  // namespace
}  // namespace muster::host
