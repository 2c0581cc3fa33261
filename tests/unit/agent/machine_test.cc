// The supervisor's machine: rounds, re-forming, leaving, Ready, Goodbye, the link.

#include "machine_harness.h"

namespace muster::agent {
namespace {

TEST(Machine, HelloComesFirstOnEveryStreamThenWhatWasNotAcknowledged) {
  World world;
  world.Up();
  ASSERT_EQ(world.sent.size(), 1U);
  ASSERT_EQ(world.Sent<protocol::Hello>().size(), 1U);
  EXPECT_EQ(world.Sent<protocol::Hello>()[0].fence, (Fence{0, 0}));
  world.Give(MakeOrder(OrderKind::kPrepare, 1, 2, 4));
  ASSERT_EQ(world.Sent<protocol::Ready>().size(), 1U);
  const std::uint64_t number = world.sent.back().number;
  EXPECT_GT(number, 0U);

  world.Feed(LinkDown{Unavailable("cut"), false});
  world.Clear();
  world.Up();
  ASSERT_EQ(world.sent.size(), 2U);
  EXPECT_TRUE(std::holds_alternative<protocol::Hello>(world.sent[0].body));
  EXPECT_EQ(world.sent[1].number, number);
  EXPECT_EQ(world.Sent<protocol::Hello>()[0].fence, (Fence{0, 1}));

  world.Feed(AcknowledgeReceived{number});
  world.Feed(LinkDown{Unavailable("cut"), false});
  world.Clear();
  world.Up();
  EXPECT_EQ(world.sent.size(), 1U) << "an acknowledged message came again";
}

TEST(Machine, RunStartsEachWorkerOnceHoweverOftenItIsSaid) {
  World world;
  world.Up();
  world.Give(MakeOrder(OrderKind::kRun, 1));
  ASSERT_EQ(world.starts.size(), 2U);
  EXPECT_EQ(world.starts[0].order.master_port, 4000U);
  world.Give(MakeOrder(OrderKind::kRun, 1));
  world.Feed(LinkDown{Unavailable("cut"), false});
  world.Up();
  world.Give(MakeOrder(OrderKind::kRun, 1));
  EXPECT_EQ(world.starts.size(), 2U);
}

TEST(Machine, AnExitIsToldOnceAndNotRestartedInItsRound) {
  World world;
  world.Run(1, false);
  world.Feed(ProcessExited{world.Worker(1), 3, 0, protocol::Cause::kCode, "ValueError: x"});
  world.Feed(ProcessExited{world.Worker(1), 3, 0, protocol::Cause::kCode, "ValueError: x"});
  const auto exits = world.Sent<protocol::WorkerExited>();
  ASSERT_EQ(exits.size(), 1U);
  EXPECT_EQ(exits[0].local_rank, 1U);
  EXPECT_EQ(exits[0].pid, 101);
  EXPECT_EQ(exits[0].exit_code, 3);
  EXPECT_EQ(exits[0].fence, (Fence{0, 1}));
  EXPECT_EQ(exits[0].last_line, "ValueError: x");
  world.Give(MakeOrder(OrderKind::kRun, 1));
  EXPECT_TRUE(world.starts.empty());
}

TEST(Machine, ALivingWorkerIsNotGoneWhateverIsSaidOfItsTree) {
  World world;
  world.Run(1, false);
  world.Feed(TreeGone{world.Worker(0)});
  world.Give(MakeOrder(OrderKind::kWait, 1));
  EXPECT_EQ(world.Signals(), "0:15 1:15");
  world.Feed(TreeGone{world.Worker(0)});  // its own process has not ended yet
  world.Give(MakeOrder(OrderKind::kRun, 2));
  EXPECT_TRUE(world.starts.empty());
}

TEST(Machine, WaitEndsWorkersThatCannotReformWithTermThenKill) {
  World world;
  world.Run(1, false);
  world.Give(MakeOrder(OrderKind::kWait, 1));
  EXPECT_EQ(world.Signals(), "0:15 1:15");
  world.Die(0);
  EXPECT_TRUE(world.Sent<protocol::WorkerExited>().empty()) << "ended by ourselves is no news";
  world.Pass(seconds(19));
  EXPECT_EQ(world.Signals(), "0:15 1:15");
  world.Pass(seconds(2));
  EXPECT_EQ(world.Signals(), "0:15 1:15 1:9");
}

TEST(Machine, PrepareIsAnsweredWhenTheLastOldProcessIsGone) {
  World world;
  world.Run(1, false);
  world.Give(MakeOrder(OrderKind::kPrepare, 2, 2, 2));
  world.Die(0);
  EXPECT_TRUE(world.Sent<protocol::Ready>().empty());
  // Its own process ended, but what it started still lives.
  world.Feed(ProcessExited{world.Worker(1), 143, 15, protocol::Cause::kCode, ""});
  EXPECT_TRUE(world.Sent<protocol::Ready>().empty());
  world.Feed(TreeGone{world.Worker(1)});
  const auto ready = world.Sent<protocol::Ready>();
  ASSERT_EQ(ready.size(), 1U);
  EXPECT_EQ(ready[0].fence, (Fence{0, 2}));
  EXPECT_EQ(ready[0].problem, "");
  EXPECT_EQ(ready[0].master_port, 0U) << "not rank 0's agent";
  EXPECT_EQ(world.binds, 0);
}

TEST(Machine, TheLeftOversOfAWorkerThatExitedAreEndedBeforeReady) {
  World world;
  world.Run(1, false);
  for (const Slot slot : {0U, 1U}) {
    world.Feed(ProcessExited{world.Worker(slot), 0, 0, protocol::Cause::kCode, ""});
  }
  world.Give(MakeOrder(OrderKind::kPrepare, 2, 2, 2));
  EXPECT_EQ(world.Signals(), "0:15 1:15");
  EXPECT_TRUE(world.Sent<protocol::Ready>().empty());
  world.Feed(TreeGone{world.Worker(0)});
  world.Feed(TreeGone{world.Worker(1)});
  EXPECT_EQ(world.Sent<protocol::Ready>().size(), 1U);
}

TEST(Machine, WhatKillDoesNotEndIsNamedInReadyAndTakenBackWhenItGoes) {
  World world;
  world.Run(1, false);
  world.Give(MakeOrder(OrderKind::kPrepare, 2, 2, 2));
  world.Die(0);
  world.Feed(ProcessExited{world.Worker(1), 143, 15, protocol::Cause::kCode, ""});
  world.Pass(seconds(21));
  world.Feed(TreeRemains{world.Worker(1), "4711 (python, state D)"});
  world.Pass(seconds(6));
  auto ready = world.Sent<protocol::Ready>();
  ASSERT_EQ(ready.size(), 1U);
  EXPECT_THAT(ready[0].problem, testing::HasSubstr("4711 (python, state D)"));
  EXPECT_THAT(ready[0].problem, testing::HasSubstr("n1"));
  world.Pass(seconds(60));
  EXPECT_EQ(world.Sent<protocol::Ready>().size(), 1U) << "one problem is said once";
  world.Feed(TreeGone{world.Worker(1)});
  ready = world.Sent<protocol::Ready>();
  ASSERT_EQ(ready.size(), 2U);
  EXPECT_EQ(ready[1].problem, "");
}

TEST(Machine, SurvivorsQuiesceAreListedAndReform) {
  World world;
  world.Run(1, true);
  world.Give(MakeOrder(OrderKind::kWait, 1));
  ASSERT_EQ(world.endings.size(), 2U);
  EXPECT_EQ(world.endings[0].fence, (Fence{0, 1}));
  EXPECT_EQ(world.Signals(), "");
  world.Quiesce(0, 1);
  world.Give(MakeOrder(OrderKind::kPrepare, 2, 2, 2));
  EXPECT_TRUE(world.Sent<protocol::Ready>().empty());
  EXPECT_EQ(world.endings.size(), 2U) << "told twice";
  world.Quiesce(1, 1);
  const auto ready = world.Sent<protocol::Ready>();
  ASSERT_EQ(ready.size(), 1U);
  ASSERT_EQ(ready[0].workers.size(), 2U);
  EXPECT_EQ(ready[0].workers[1].pid, 101);
  EXPECT_EQ(ready[0].workers[1].last_step, 5);
  EXPECT_TRUE(ready[0].workers[1].can_reform);

  world.Give(MakeOrder(OrderKind::kRun, 2, 2, 2));
  ASSERT_EQ(world.rounds.size(), 2U);
  EXPECT_EQ(world.rounds[1].round.rank, 3U);
  EXPECT_EQ(world.rounds[1].round.round, 2U);
  EXPECT_TRUE(world.starts.empty());
  EXPECT_EQ(world.machine.FenceOf(world.Worker(0)), (Fence{0, 2}));
}

TEST(Machine, ASurvivorThatSaysNothingInItsNewRoundIsReplaced) {
  World world;
  world.Run(1, true);
  world.Give(MakeOrder(OrderKind::kWait, 1));
  world.Quiesce(0, 1);
  world.Quiesce(1, 1);
  world.Give(MakeOrder(OrderKind::kRun, 2));
  world.Feed(WorkerHeard{world.Worker(0)});
  for (int i = 0; i < 31; ++i) {  // beats are answered, or the workers would be frozen
    world.Pass(seconds(1));
    world.AnswerBeat(2);
  }
  EXPECT_EQ(world.Signals(), "1:15");
  EXPECT_TRUE(world.starts.empty());
  world.Die(1);
  ASSERT_EQ(world.starts.size(), 1U);
  EXPECT_EQ(world.starts[0].worker.slot, 1U);
  EXPECT_EQ(world.starts[0].order.fence, (Fence{0, 2}));
  EXPECT_TRUE(world.Sent<protocol::WorkerExited>().empty());
}

TEST(Machine, AWorkerThatDoesNotQuiesceInTimeIsEnded) {
  World world;
  world.Run(1, true);
  world.Give(MakeOrder(OrderKind::kPrepare, 2, 2, 2));
  world.Quiesce(0, 1);
  world.Pass(seconds(11));
  EXPECT_EQ(world.Signals(), "1:15");
  world.Die(1);
  const auto ready = world.Sent<protocol::Ready>();
  ASSERT_EQ(ready.size(), 1U);
  ASSERT_EQ(ready[0].workers.size(), 1U);
  EXPECT_EQ(ready[0].workers[0].local_rank, 0U);
}

TEST(Machine, ASurvivorThatDiesWhilePreparingIsToldAndStartedAnew) {
  World world;
  world.Run(1, true);
  world.Give(MakeOrder(OrderKind::kPrepare, 2, 2, 2));
  world.Quiesce(0, 1);
  world.Quiesce(1, 1);
  world.Feed(ProcessExited{world.Worker(1), 137, 9, protocol::Cause::kCode, ""});
  const auto exits = world.Sent<protocol::WorkerExited>();
  ASSERT_EQ(exits.size(), 1U);
  EXPECT_EQ(exits[0].fence, (Fence{0, 1}));
  world.Give(MakeOrder(OrderKind::kRun, 2, 2, 2));
  EXPECT_EQ(world.rounds.size(), 1U);
  EXPECT_TRUE(world.starts.empty()) << "its left-overs are not gone yet";
  world.Feed(TreeGone{world.Worker(1)});
  ASSERT_EQ(world.starts.size(), 1U);
  EXPECT_EQ(world.starts[0].worker.slot, 1U);
}

TEST(Machine, RunWithoutPrepareStillEndsTheOldRoundFirst) {
  World world;
  world.Run(1, true);
  world.Give(MakeOrder(OrderKind::kRun, 3));
  EXPECT_EQ(world.endings.size(), 2U);
  EXPECT_TRUE(world.rounds.empty());
  world.Quiesce(0, 1);
  world.Quiesce(1, 1);
  EXPECT_EQ(world.rounds.size(), 2U);
}

TEST(Machine, FewerWorkersEndTheOnesBehind) {
  World world;
  world.Run(1, true);
  world.Give(MakeOrder(OrderKind::kPrepare, 2, 1, 2));
  EXPECT_EQ(world.endings.size(), 1U);
  EXPECT_EQ(world.Signals(), "1:15");
}

TEST(Machine, RegisteringIsAnsweredWithTheRound) {
  World world;
  world.Run(1, false);
  world.Register(1);
  ASSERT_EQ(world.rounds.size(), 1U);
  EXPECT_EQ(world.rounds[0].round.rank, 1U);
  EXPECT_EQ(world.rounds[0].round.master_port, 4000U);
  EXPECT_EQ(world.rounds[0].round.cause, "initial");
  world.Register(1);
  EXPECT_EQ(world.rounds.size(), 2U) << "a second connection is told too";
}

TEST(Machine, RankZerosAgentBindsThePortAndKeepsItForTheRound) {
  World world;
  world.Up();
  world.Give(MakeOrder(OrderKind::kPrepare, 1));
  EXPECT_EQ(world.binds, 1);
  EXPECT_TRUE(world.Sent<protocol::Ready>().empty());
  world.Feed(PortBound{{0, 9}, "10.0.0.1", 1});  // of another round
  EXPECT_TRUE(world.Sent<protocol::Ready>().empty());
  world.Feed(PortBound{{0, 1}, "10.0.0.1", 5000});
  const auto ready = world.Sent<protocol::Ready>();
  ASSERT_EQ(ready.size(), 1U);
  EXPECT_EQ(ready[0].master_address, "10.0.0.1");
  EXPECT_EQ(ready[0].master_port, 5000U);
  world.Give(MakeOrder(OrderKind::kRun, 1));
  EXPECT_EQ(world.releases, 0);
  world.Give(MakeOrder(OrderKind::kWait, 1));
  EXPECT_EQ(world.releases, 1);
}

TEST(Machine, APortThatCannotBeBoundIsAProblem) {
  World world;
  world.Up();
  world.Give(MakeOrder(OrderKind::kPrepare, 1));
  world.Feed(PortFailed{{0, 1}, "n1 has no master port: none free"});
  const auto ready = world.Sent<protocol::Ready>();
  ASSERT_EQ(ready.size(), 1U);
  EXPECT_EQ(ready[0].problem, "n1 has no master port: none free");
}

TEST(Machine, CloseEndsAllSweepsSaysGoodbyeAndWaitsForItsReceipt) {
  World world;
  world.Run(1, true);
  Order close = MakeOrder(OrderKind::kClose, 1);
  close.deadline = seconds(3);
  world.Give(close);
  EXPECT_EQ(world.Signals(), "0:15 1:15");
  world.Die(0);
  world.Pass(seconds(4));
  EXPECT_EQ(world.Signals(), "0:15 1:15 1:9") << "the order's own grace";
  EXPECT_EQ(world.sweeps, 0);
  world.Die(1);
  EXPECT_EQ(world.sweeps, 1);
  EXPECT_TRUE(world.Sent<protocol::Goodbye>().empty());
  world.Feed(SweepDone{""});
  ASSERT_EQ(world.Sent<protocol::Goodbye>().size(), 1U);
  EXPECT_FALSE(world.finish);
  world.Feed(AcknowledgeReceived{world.sent.back().number});
  ASSERT_TRUE(world.finish);
  EXPECT_EQ(world.finish->exit_code, 0);
}

TEST(Machine, AGoodbyeThatNobodyAcknowledgesEndsAllTheSame) {
  World world;
  world.Up();
  world.Give(MakeOrder(OrderKind::kClose, 0));
  world.Feed(SweepDone{""});
  world.Pass(milliseconds(1900));
  EXPECT_FALSE(world.finish);
  world.Pass(milliseconds(200));
  EXPECT_TRUE(world.finish);
}

TEST(Machine, NothingStartsAfterClose) {
  World world;
  world.Up();
  world.Give(MakeOrder(OrderKind::kClose, 1));
  world.Give(MakeOrder(OrderKind::kRun, 2));
  EXPECT_TRUE(world.starts.empty());
}

TEST(Machine, TermFromOutsideWaitsForTheDaemonsOrderThenEndsByItself) {
  World world;
  world.Run(1, false);
  world.Feed(StopAsked{"the agent got TERM"});
  EXPECT_EQ(world.Signals(), "");
  world.Pass(milliseconds(1100));
  EXPECT_EQ(world.Signals(), "0:15 1:15");
  world.Die(0);
  world.Die(1);
  world.Feed(SweepDone{""});
  const auto goodbye = world.Sent<protocol::Goodbye>();
  ASSERT_EQ(goodbye.size(), 1U);
  EXPECT_EQ(goodbye[0].reason, "the agent got TERM");
  world.Pass(seconds(3));
  ASSERT_TRUE(world.finish);
  EXPECT_EQ(world.finish->exit_code, 143);
}

TEST(Machine, AFinalDismissalEndsTheWorkersAndTheAgent) {
  World world;
  world.Run(1, true);
  world.Feed(LinkDown{Aborted("fenced by a newer incarnation"), true});
  EXPECT_EQ(world.Signals(), "0:15 1:15");
  world.Die(0);
  world.Die(1);
  world.Feed(SweepDone{""});
  ASSERT_TRUE(world.finish);
  EXPECT_EQ(world.finish->exit_code, 1);
  EXPECT_THAT(world.finish->text, testing::HasSubstr("fenced by a newer incarnation"));
}

TEST(Machine, WithoutDaemonAndParentItEnds) {
  World world;
  world.Run(1, false);
  world.Feed(LinkDown{Unavailable("gone"), false});
  world.Pass(seconds(120));
  EXPECT_THAT(world.Signals(), testing::Not(testing::HasSubstr(":15"))) << "the parent still lives";
  world.Feed(ParentGone{});
  EXPECT_THAT(world.Signals(), testing::HasSubstr(":9")) << "frozen ones are killed";
}

TEST(Machine, ProgressIsThinnedAndTheNewestArrives) {
  World world;
  world.Run(1, true);
  for (int step = 0; step < 100; ++step) {
    world.Feed(WorkerProgressed{world.Worker(0), 1, step});
  }
  EXPECT_EQ(world.Sent<protocol::WorkerProgress>().size(), 1U);
  world.Pass(seconds(1));
  ASSERT_EQ(world.Sent<protocol::WorkerProgress>().size(), 2U);
  EXPECT_EQ(world.Sent<protocol::WorkerProgress>()[1].step, 99);
  for (const protocol::Upward& message : world.sent) EXPECT_EQ(message.number, 0U);
}

TEST(Machine, BrokenAndRequestsAreToldOnceARound) {
  World world;
  world.Run(1, true);
  world.Feed(WorkerBroke{world.Worker(0), {0, 1}, "peer gone"});
  world.Feed(WorkerBroke{world.Worker(0), {0, 1}, "peer gone"});
  world.Feed(WorkerBroke{world.Worker(0), {0, 7}, "of no round of mine"});
  EXPECT_EQ(world.Sent<protocol::WorkerBroken>().size(), 1U);
  world.Feed(WorkerAsked{world.Worker(0), 2, "done"});
  world.Feed(WorkerAsked{world.Worker(0), 2, "done"});
  EXPECT_EQ(world.Sent<protocol::WorkerRequest>().size(), 1U);
}

TEST(Machine, CutOffWorkersFreezeBeforeTheLeaseAndGoOnWhenConfirmed) {
  World world;
  world.Run(1, false);
  world.AnswerBeat(1);
  world.Pass(milliseconds(3900));
  EXPECT_EQ(world.Signals(), "");
  world.Pass(milliseconds(200));
  EXPECT_EQ(world.Signals(), "0:19 1:19");
  world.AnswerBeat(1);
  EXPECT_EQ(world.Signals(), "0:19 1:19 0:18 1:18");
}

TEST(Machine, ANewStreamsOrderConfirmsWhatItStarts) {
  World world;
  world.Run(1, false);
  world.AnswerBeat(1);
  world.Give(MakeOrder(OrderKind::kWait, 1));
  world.Die(0);
  world.Die(1);
  world.Feed(LinkDown{Unavailable("cut"), false});
  world.Pass(seconds(30));
  world.Clear();
  world.Up();
  world.Give(MakeOrder(OrderKind::kRun, 2));
  world.Pass(seconds(1));
  EXPECT_EQ(world.starts.size(), 2U);
  EXPECT_EQ(world.Signals(), "") << "the beat of half a minute ago is no reason to stop them";
}

TEST(Machine, MarksOfProgressKeepACutOffWorkerRunning) {
  World world;
  world.Run(1, true);
  world.AnswerBeat(1);
  for (int i = 0; i < 20; ++i) {
    world.Pass(seconds(1));
    world.Feed(WorkerProgressed{world.Worker(0), 1, i});
  }
  EXPECT_EQ(world.Signals(), "");
}

TEST(Machine, FrozenWorkersOfARoundThatEndedAreKilledNotContinued) {
  World world;
  world.Run(1, true);
  world.AnswerBeat(1);
  world.Pass(seconds(5));
  ASSERT_EQ(world.Signals(), "0:19 1:19");
  world.Give(MakeOrder(OrderKind::kWait, 1));
  EXPECT_EQ(world.Signals(), "0:19 1:19 0:9 1:9");
  EXPECT_TRUE(world.endings.empty());
}

}  // namespace
}  // namespace muster::agent
