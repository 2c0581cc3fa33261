#include "rendezvousd/core/failure_detector.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace muster::core {
namespace {

using protocol::AgentId;
using protocol::Cause;
using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A detector with agents n1, n2, ... and a clock; keeps what it said as short words.
class World {
 public:
  explicit World(int nodes)
      : detector_({.beat = seconds(1),
                   .lease = seconds(5),
                   .attend_grace = seconds(1),
                   .probe_timeout = seconds(1)}) {
    for (int i = 1; i <= nodes; ++i) {
      silent_.push_back(false);
      Take(detector_.OnAttend(Id(i), "10.0.0." + std::to_string(i), now_));
    }
  }

  static AgentId Id(int node, std::uint64_t incarnation = 1) {
    return {{"n" + std::to_string(node), 0, 0}, incarnation};
  }

  // Lets time pass; agents that are not silent beat each 500 ms, the loop looks each 100 ms.
  void Run(Duration duration) {
    for (TimePoint end = now_ + duration; now_ < end;) {
      now_ += milliseconds(100);
      if (++tick_ % 5 == 0) {
        for (std::size_t i = 0; i < silent_.size(); ++i) {
          if (!silent_[i]) Take(detector_.OnBeat(Id(static_cast<int>(i) + 1), now_));
        }
      }
      if (moving_) detector_.OnProgress(now_);
      Take(detector_.OnTime(now_));
    }
  }

  void Silence(int node, bool silent = true) {
    silent_[static_cast<std::size_t>(node) - 1] = silent;
  }
  void Detach(int node) {
    Silence(node);
    Take(detector_.OnDetached(Id(node), now_));
  }
  void Attend(int node) {
    Silence(node, false);
    Take(detector_.OnAttend(Id(node), "10.0.0." + std::to_string(node), now_));
  }
  // Every open probe is answered.
  void Answer(bool reachable) {
    std::vector<SendProbe> open = std::move(probes_);
    probes_.clear();
    for (const SendProbe& probe : open) {
      Take(detector_.OnProbeAnswer(probe.prober, {probe.probe.probe_id, reachable, ""}, now_));
    }
  }
  void Take(Detection detection) {
    for (const Event& event : detection.events) {
      if (const auto* suspect = std::get_if<AgentSuspect>(&event)) {
        said_.push_back("suspect " + suspect->agent.key.node);
      } else if (const auto* back = std::get_if<AgentBack>(&event)) {
        said_.push_back("back " + back->agent.key.node);
      } else if (const auto* dead = std::get_if<AgentDead>(&event)) {
        said_.push_back("dead " + dead->agent.key.node + " " +
                        std::string(protocol::ToString(dead->cause)));
        evidence_ = dead->evidence;
      }
    }
    for (SendProbe& probe : detection.probes) probes_.push_back(probe);
  }
  std::vector<std::string> Said() { return std::exchange(said_, {}); }

  FailureDetector detector_;
  TimePoint now_ = TimePoint(seconds(1000));
  int tick_ = 0;
  bool moving_ = false;
  std::vector<bool> silent_;
  std::vector<SendProbe> probes_;
  std::vector<std::string> said_;
  std::string evidence_;
};

TEST(FailureDetector, BeatsKeepEverybodyAlive) {
  World world(4);
  world.Run(seconds(60));
  EXPECT_THAT(world.Said(), IsEmpty());
  EXPECT_THAT(world.probes_, IsEmpty());
}

TEST(FailureDetector, ASilentNodeIsSuspectAfterOneLeaseAndDeadWithEvidence) {
  World world(4);
  world.Silence(3);
  world.Run(milliseconds(4900));
  EXPECT_THAT(world.Said(), IsEmpty());
  world.Run(milliseconds(200));
  EXPECT_THAT(world.Said(), ElementsAre("suspect n3"));
  ASSERT_EQ(world.probes_.size(), 2u);
  EXPECT_EQ(world.probes_[0].probe.address, "10.0.0.3");
  EXPECT_NE(world.probes_[0].prober.key.node, world.probes_[1].prober.key.node);
  world.Run(seconds(1));
  EXPECT_THAT(world.Said(), IsEmpty());  // no answer is no evidence
  world.Answer(false);
  EXPECT_THAT(world.Said(), ElementsAre("dead n3 node"));
  EXPECT_THAT(world.evidence_, HasSubstr("n1 and n2 cannot reach its machine"));
}

TEST(FailureDetector, OneWitnessThatReachesItsMachineIsEnoughAgainstAllOthers) {
  World world(4);
  world.Silence(3);
  world.Run(milliseconds(5100));
  std::vector<SendProbe> open = std::exchange(world.probes_, {});
  world.Take(world.detector_.OnProbeAnswer(open[0].prober, {open[0].probe.probe_id, false, ""},
                                           world.now_));
  world.Take(world.detector_.OnProbeAnswer(open[1].prober, {open[1].probe.probe_id, true, ""},
                                           world.now_));
  world.Run(seconds(4));
  EXPECT_THAT(world.Said(), ElementsAre("suspect n3"));
}

TEST(FailureDetector, ASuspectThatBeatsAgainIsBack) {
  World world(4);
  world.Silence(3);
  world.Run(milliseconds(5100));
  world.Silence(3, false);
  world.Run(seconds(1));
  EXPECT_THAT(world.Said(), ElementsAre("suspect n3", "back n3"));
  world.Answer(false);  // a late answer finds no suspect
  EXPECT_THAT(world.Said(), IsEmpty());
  EXPECT_EQ(world.detector_.SuspectSince(World::Id(3), world.now_), std::nullopt);
}

TEST(FailureDetector, ABrokenStreamThatComesBackInGraceIsNothing) {
  World world(4);
  world.Detach(2);
  EXPECT_THAT(world.Said(), ElementsAre("suspect n2"));
  world.Answer(true);
  world.Run(milliseconds(900));
  world.Attend(2);
  EXPECT_THAT(world.Said(), ElementsAre("back n2"));
  world.Run(seconds(10));
  EXPECT_THAT(world.Said(), IsEmpty());
}

TEST(FailureDetector, ABrokenStreamOnALivingMachineIsADeadAgentAfterTheGrace) {
  World world(4);
  world.Detach(2);
  world.Answer(true);
  world.Run(milliseconds(1100));
  EXPECT_THAT(world.Said(), ElementsAre("suspect n2", "dead n2 agent"));
  EXPECT_THAT(world.evidence_, HasSubstr("its machine answers"));
}

TEST(FailureDetector, ABrokenStreamOnADeadMachineIsADeadNode) {
  World world(4);
  world.Detach(2);
  world.Answer(false);
  EXPECT_THAT(world.Said(), ElementsAre("suspect n2"));
  world.Run(milliseconds(1100));
  EXPECT_THAT(world.Said(), ElementsAre("dead n2 node"));
}

TEST(FailureDetector, NoVerdictWhileTheWorldMoves) {
  World world(4);
  world.moving_ = true;
  world.Silence(3);
  for (int i = 0; i < 120; ++i) {
    world.Run(seconds(1));
    world.Answer(false);
  }
  EXPECT_THAT(world.Said(), ElementsAre("suspect n3"));
  world.moving_ = false;
  for (int i = 0; i < 4; ++i) {
    world.Run(seconds(1));
    world.Answer(false);
  }
  EXPECT_THAT(world.Said(), ElementsAre("dead n3 node"));
}

TEST(FailureDetector, SlurmsWordNeedsNoWitness) {
  World world(2);
  world.Silence(2);
  world.Take(world.detector_.OnSlurmDead({"n2"}, world.now_));
  EXPECT_THAT(world.Said(), IsEmpty());  // it still beats as far as we know
  world.Run(milliseconds(5100));
  EXPECT_THAT(world.Said(), ElementsAre("suspect n2", "dead n2 node"));
  EXPECT_THAT(world.evidence_, HasSubstr("Slurm says that n2 is down"));
}

TEST(FailureDetector, SilentOnALivingMachineIsGivenTimeButNotForEver) {
  World world(3);
  world.Silence(3);
  for (int i = 0; i < 33; ++i) {
    world.Run(seconds(1));
    world.Answer(true);
  }
  EXPECT_THAT(world.Said(), ElementsAre("suspect n3"));
  for (int i = 0; i < 4; ++i) {
    world.Run(seconds(1));
    world.Answer(true);
  }
  EXPECT_THAT(world.Said(), ElementsAre("dead n3 agent"));
}

TEST(FailureDetector, ManySilentAtOnceMakeItDoubtItself) {
  World world(6);
  for (int node : {1, 2, 3}) world.Silence(node);
  for (int i = 0; i < 90; ++i) {
    world.Run(seconds(1));
    world.Answer(false);
  }
  EXPECT_THAT(world.Said(), ElementsAre("suspect n1", "suspect n2", "suspect n3"));
  world.Take(world.detector_.OnSlurmDead({"n2"}, world.now_));
  EXPECT_THAT(world.Said(), ElementsAre("dead n2 node"));
}

TEST(FailureDetector, TwoOfSixAreNotMany) {
  World world(6);
  for (int node : {1, 2}) world.Silence(node);
  world.Run(milliseconds(5100));
  world.Answer(false);
  EXPECT_THAT(world.Said(),
              ElementsAre("suspect n1", "suspect n2", "dead n1 node", "dead n2 node"));
}

TEST(FailureDetector, ALoopThatWasAwayBlamesNobody) {
  World world(4);
  world.Run(seconds(2));
  world.now_ += seconds(30);
  world.Take(world.detector_.OnTime(world.now_));
  EXPECT_THAT(world.Said(), IsEmpty());
  world.Run(seconds(20));
  EXPECT_THAT(world.Said(), IsEmpty());
}

TEST(FailureDetector, AProberThatDiesItselfIsReplaced) {
  World world(7);
  world.Silence(7);
  world.Run(milliseconds(5100));
  world.Detach(1);  // one of the two that were asked
  world.probes_.clear();
  world.Run(seconds(2));
  ASSERT_FALSE(world.probes_.empty());
  for (const SendProbe& probe : world.probes_) EXPECT_NE(probe.prober.key.node, "n1");
}

TEST(FailureDetector, ANewIncarnationIsNotTheOldOne) {
  World world(3);
  world.Detach(2);
  world.Take(world.detector_.OnAttend(World::Id(2, 2), "10.0.0.2", world.now_));
  EXPECT_THAT(world.Said(), ElementsAre("suspect n2"));
  world.Take(world.detector_.OnDetached(World::Id(2, 1), world.now_));
  EXPECT_THAT(world.Said(), IsEmpty());
  EXPECT_EQ(world.detector_.SuspectSince(World::Id(2, 1), world.now_), std::nullopt);
}

// Seed 100476 of the simulation: the daemon ended on the late answer.
TEST(FailureDetector, AProbeOfAReplacedIncarnationIsAnsweredInVain) {
  World world(3);
  world.Detach(2);
  ASSERT_FALSE(world.probes_.empty());
  world.Take(world.detector_.OnAttend(World::Id(2, 99), "10.0.0.2", world.now_));
  world.Said();
  world.Answer(false);
  EXPECT_THAT(world.Said(), IsEmpty());
}

TEST(FailureDetector, AloneOnOneNodeTheGraceDecides) {
  World world(1);
  world.Detach(1);
  world.Run(milliseconds(1200));
  EXPECT_THAT(world.Said(), ElementsAre("suspect n1", "dead n1 agent"));
}

TEST(FailureDetector, TheNextDeadlineIsNeverInThePast) {
  World world(4);
  for (int i = 0; i < 400; ++i) {
    if (i == 30) world.Silence(3);
    if (i == 90) world.Detach(2);
    if (i == 120) world.Answer(false);
    world.Run(milliseconds(100));
    auto next = world.detector_.NextDeadline();
    ASSERT_TRUE(next);
    ASSERT_GT(*next, world.now_) << i;
  }
}

}  // namespace
}  // namespace muster::core
