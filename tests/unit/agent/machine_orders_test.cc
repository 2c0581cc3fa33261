// Orders that come late, twice or out of order: a table.

#include "machine_harness.h"

namespace muster::agent {
namespace {

// "run1": kind and round.
Order Parse(const std::string& word) {
  const std::size_t digits = word.find_first_of("0123456789");
  const std::string kind = word.substr(0, digits);
  const auto round = static_cast<std::uint32_t>(std::stoul(word.substr(digits)));
  if (kind == "wait") return MakeOrder(OrderKind::kWait, round);
  if (kind == "prepare") return MakeOrder(OrderKind::kPrepare, round, 2, 2);
  if (kind == "run") return MakeOrder(OrderKind::kRun, round, 2, 2);
  return MakeOrder(OrderKind::kClose, round);
}

struct Case {
  const char* name;
  const char* orders;   // blank between two
  const char* running;  // round that workers end up in; "" if none
  std::size_t starts;   // workers started all in all
};

class Orders : public testing::TestWithParam<Case> {};

// Workers obey TERM at once.
TEST_P(Orders, EndUpInTheRightRound) {
  World world;
  world.Up();
  std::size_t starts = 0;
  std::string rest = GetParam().orders;
  while (!rest.empty()) {
    const std::size_t blank = rest.find(' ');
    world.Give(Parse(rest.substr(0, blank)));
    rest = blank == std::string::npos ? "" : rest.substr(blank + 1);
    for (bool again = true; again;) {
      again = false;
      const std::vector<SignalTree> signals = std::exchange(world.signals, {});
      for (const SignalTree& signal : signals) {
        again = true;
        world.Feed(ProcessExited{signal.worker, 143, 15, protocol::Cause::kCode, ""});
        world.Feed(TreeGone{signal.worker});
      }
    }
    starts += std::exchange(world.starts, {}).size();
  }
  std::string running;
  for (const auto& [slot, worker] : world.started) {
    const auto fence = world.machine.FenceOf(worker);
    if (slot == 0 && fence) running = std::to_string(fence->round);
  }
  EXPECT_EQ(running, GetParam().running);
  EXPECT_EQ(starts, GetParam().starts);
}

INSTANTIATE_TEST_SUITE_P(
    Table, Orders,
    testing::Values(Case{"Plain", "wait0 prepare1 run1", "1", 2},
                    Case{"Twice", "prepare1 prepare1 run1 run1 run1", "1", 2},
                    Case{"NextRound", "run1 wait1 prepare2 run2", "2", 4},
                    Case{"NextRoundWithoutWait", "run1 prepare2 run2", "2", 4},
                    Case{"RunOnly", "run5", "5", 2},
                    Case{"LateWaitOfAnOlderRound", "run2 wait1", "2", 2},
                    Case{"LatePrepareOfTheSameRound", "run2 prepare2", "2", 2},
                    Case{"LatePrepareOfAnOlderRound", "run2 prepare1", "2", 2},
                    Case{"LateRunOfAnOlderRound", "run2 run1", "2", 2},
                    Case{"RunAfterItsEnd", "run1 wait1 run1", "", 2},
                    Case{"PrepareAfterItsEnd", "run1 wait1 prepare1", "", 2},
                    Case{"PrepareTakenBackAndSealedAnew", "prepare1 wait0 prepare2 run2", "2", 2},
                    Case{"PrepareTakenBackWithItsOwnRound", "prepare1 wait1 prepare2 run2", "2", 2},
                    Case{"OlderPrepareInBetween", "prepare3 prepare2 run3", "3", 2},
                    Case{"OlderRunWhilePreparing", "prepare3 run2 run3", "3", 2},
                    Case{"Spare", "wait0 wait1 wait2", "", 0},
                    Case{"Close", "run1 close1 run2 prepare3 wait4", "", 2},
                    Case{"CloseFirst", "close0 run1", "", 0}),
    [](const testing::TestParamInfo<Case>& test) { return test.param.name; });

TEST(Orders, OfAnOlderAttemptAreIgnored) {
  MachineConfig config = TestConfig();
  config.attempt = 3;
  World world(config);
  world.Up();
  world.Give(MakeOrder(OrderKind::kRun, 9));  // attempt 0
  EXPECT_TRUE(world.starts.empty());
  Order own = MakeOrder(OrderKind::kRun, 1);
  own.fence.attempt = 3;
  world.Give(own);
  EXPECT_EQ(world.starts.size(), 2U);
}

TEST(Orders, APrepareThatIsRepeatedAfterItsReceiptIsAnsweredAgain) {
  World world;
  world.Up();
  world.Give(MakeOrder(OrderKind::kPrepare, 1, 2, 2));
  ASSERT_EQ(world.Sent<protocol::Ready>().size(), 1U);
  world.Give(MakeOrder(OrderKind::kPrepare, 1, 2, 2));
  EXPECT_EQ(world.Sent<protocol::Ready>().size(), 1U) << "still on its way";
  world.Feed(AcknowledgeReceived{world.sent.back().number});
  world.Give(MakeOrder(OrderKind::kPrepare, 1, 2, 2));
  EXPECT_EQ(world.Sent<protocol::Ready>().size(), 2U);
}

TEST(Orders, APrepareSealedAnewWithOtherRanksIsAnsweredAnew) {
  World world;
  world.Up();
  world.Give(MakeOrder(OrderKind::kPrepare, 1, 2, 2));
  world.Give(MakeOrder(OrderKind::kPrepare, 1, 2, 0));  // now rank 0
  EXPECT_EQ(world.binds, 1);
  world.Feed(PortBound{{0, 1}, "10.0.0.1", 5000});
  const auto ready = world.Sent<protocol::Ready>();
  ASSERT_EQ(ready.size(), 2U);
  EXPECT_EQ(ready[0].master_port, 0U);
  EXPECT_EQ(ready[1].master_port, 5000U);
}

TEST(Orders, AnAgentThatAttendsAgainInTheMiddleOfPreparingAnswersOnce) {
  World world;
  world.Run(1, false);
  world.Give(MakeOrder(OrderKind::kPrepare, 2, 2, 2));
  world.Feed(LinkDown{Unavailable("cut"), false});
  world.Die(0);
  world.Die(1);
  EXPECT_TRUE(world.Sent<protocol::Ready>().empty()) << "nobody is there";
  world.Clear();
  world.Up();
  EXPECT_EQ(world.Sent<protocol::Ready>().size(), 1U);
  world.Give(MakeOrder(OrderKind::kPrepare, 2, 2, 2));
  EXPECT_EQ(world.Sent<protocol::Ready>().size(), 1U);
}

}  // namespace
}  // namespace muster::agent
