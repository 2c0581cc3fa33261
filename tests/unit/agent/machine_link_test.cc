#include "tests/unit/agent/machine_harness.h"

namespace muster::agent {
namespace {

TEST(Machine, AnAgentThatNeverReachesTheDaemonSaysSoAndGivesUp) {
  MachineConfig config = TestConfig();
  config.endpoint = "10.0.0.9:4711";
  config.first_contact_limit = seconds(150);
  World world(config);
  world.Feed(LinkDown{Unavailable("connection timed out"), false});
  world.Pass(seconds(4));
  EXPECT_THAT(world.said, testing::IsEmpty());
  world.Pass(seconds(1));
  ASSERT_EQ(world.said.size(), 1U);
  EXPECT_THAT(world.said[0], testing::HasSubstr("10.0.0.9:4711"));
  EXPECT_THAT(world.said[0], testing::HasSubstr("connection timed out"));
  EXPECT_THAT(world.said[0], testing::HasSubstr("2 min 25 s more"));
  world.Pass(seconds(140));
  EXPECT_EQ(world.said.size(), 3U) << "again each minute";
  EXPECT_EQ(world.sweeps, 0);
  world.Pass(seconds(5));
  EXPECT_EQ(world.sweeps, 1);
  world.Feed(SweepDone{""});
  world.Pass(seconds(2));
  ASSERT_TRUE(world.finish);
  EXPECT_EQ(world.finish->exit_code, 69);
  EXPECT_THAT(world.finish->text, testing::HasSubstr("10.0.0.9:4711"));
  EXPECT_THAT(world.finish->text, testing::HasSubstr("n1"));
}

TEST(Machine, AnAgentThatLosesTheDaemonLaterSaysSoAndTriesOn) {
  MachineConfig config = TestConfig();
  config.first_contact_limit = seconds(150);
  World world(config);
  world.Up();
  world.Give(MakeOrder(OrderKind::kWait, 0));
  world.Feed(LinkDown{Unavailable("gone"), false});
  world.Pass(seconds(600));
  EXPECT_EQ(world.said.size(), 10U);
  EXPECT_FALSE(world.finish);
  EXPECT_EQ(world.sweeps, 0);
  world.Up();
  ASSERT_EQ(world.said.size(), 11U);
  EXPECT_THAT(world.said.back(), testing::HasSubstr("reached"));
}

TEST(Machine, HelloTellsWhatIsWrongWithTheNode) {
  MachineConfig config = TestConfig();
  config.hello.problem = "no program";
  config.hello.problem_code = 127;
  World world(config);
  world.Up();
  ASSERT_EQ(world.Sent<protocol::Hello>().size(), 1U);
  EXPECT_EQ(world.Sent<protocol::Hello>()[0].problem, "no program");
  EXPECT_EQ(world.Sent<protocol::Hello>()[0].problem_code, 127);
}

}  // namespace
}  // namespace muster::agent
