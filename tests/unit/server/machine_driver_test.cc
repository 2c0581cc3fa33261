// The loop's body with far ends of the test's own and time that the test moves.

#include "rendezvousd/server/machine_driver.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

namespace muster::server {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

struct FakeAgent : AgentPeer {
  void Send(protocol::Downward message) override {
    if (const auto* probe = std::get_if<protocol::Probe>(&message)) probes.push_back(*probe);
    if (const auto* order = std::get_if<protocol::Order>(&message)) orders.push_back(*order);
  }
  void End(Status reason) override {
    if (!ended) ended = reason;
  }
  void Consumed() override {}

  std::vector<protocol::Probe> probes;
  std::vector<protocol::Order> orders;
  std::optional<Status> ended;
};

struct FakeHost : HostPeer {
  void Send(std::vector<protocol::Wish> /*wishes*/) override {}
  void End(Status /*reason*/) override {}
  void Consumed() override {}
};

class MachineDriverTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string folder = ::testing::TempDir() + "muster-driver-XXXXXX";
    ASSERT_NE(mkdtemp(folder.data()), nullptr);
    folder_ = folder;
    protocol::Config config;
    config.run_id = "run";
    config.version = "1";
    config.nodes = {"n1", "n2", "n3"};
    config.min_nodes = config.max_nodes = 3;
    driver_.emplace(Recover(folder_ + "/journal", config).value(), &files_, now_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  static protocol::AgentId Id(int node, std::uint64_t incarnation = 1) {
    return {{"n" + std::to_string(node), 0, 0}, incarnation};
  }
  static AgentSaid Said(const std::shared_ptr<FakeAgent>& peer, const protocol::AgentId& agent,
                        protocol::UpwardBody body) {
    return {peer, {agent, 0, std::move(body)}};
  }
  static AgentSaid Hello(const std::shared_ptr<FakeAgent>& peer, const protocol::AgentId& agent) {
    protocol::Hello hello;
    hello.version = "1";
    hello.run_id = "run";
    hello.address = "10.0.0.1";
    return Said(peer, agent, hello);
  }
  std::shared_ptr<FakeAgent> Attend(const protocol::AgentId& agent) {
    auto peer = std::make_shared<FakeAgent>();
    Handle({Hello(peer, agent)});
    return peer;
  }
  void Handle(std::vector<Input> inputs) { driver_->Handle(std::move(inputs), now_); }
  // Lets time pass while the agents in `beating_` beat and the loop is never late.
  void Run(Duration duration) {
    for (const TimePoint end = now_ + duration; now_ < end;) {
      now_ += milliseconds(100);
      for (const auto& [agent, peer] : beating_) Handle({Said(peer, agent, protocol::Beat{})});
      driver_->OnTime(now_);
    }
  }
  std::string StateOf(const std::string& node) {
    for (const protocol::AgentView& agent : driver_->View(now_).agents) {
      if (agent.key.node == node) return agent.state;
    }
    return "unknown";
  }

  std::string folder_;
  StateWriter files_{"", 0};
  TimePoint now_ = SteadyNow();
  std::optional<MachineDriver> driver_;
  std::vector<std::pair<protocol::AgentId, std::shared_ptr<FakeAgent>>> beating_;
};

// The detector must go on to watch the one that stays.
TEST_F(MachineDriverTest, AFencedAgentsHelloDoesNotHideTheLivingOne) {
  Attend(Id(1, 1));
  const auto living = Attend(Id(1, 2));
  beating_.emplace_back(Id(2), Attend(Id(2)));
  beating_.emplace_back(Id(3), Attend(Id(3)));
  const auto fenced = Attend(Id(1, 1));
  ASSERT_TRUE(fenced->ended.has_value());
  EXPECT_EQ(fenced->ended->code(), StatusCode::kAborted);
  EXPECT_FALSE(living->ended.has_value());
  Run(seconds(6));
  EXPECT_TRUE(StateOf("n1").starts_with("suspect")) << StateOf("n1");
}

TEST_F(MachineDriverTest, WhatSlurmTookBackIsNoEvidenceLater) {
  Attend(Id(1));
  beating_.emplace_back(Id(2), Attend(Id(2)));
  beating_.emplace_back(Id(3), Attend(Id(3)));
  const auto host = std::make_shared<FakeHost>();
  protocol::HostFacts facts;
  facts.dead_nodes = {"n1"};
  Handle({HostAttached{host}, HostSaid{host, facts}});
  facts.dead_nodes.clear();
  Handle({HostSaid{host, facts}});
  Run(milliseconds(5300));
  EXPECT_TRUE(StateOf("n1").starts_with("suspect")) << StateOf("n1");
}

TEST_F(MachineDriverTest, AVerdictDoesNotEndTheStreamOfWhoComesBackBesideIt) {
  const auto first = Attend(Id(1));
  beating_.emplace_back(Id(2), Attend(Id(2)));
  beating_.emplace_back(Id(3), Attend(Id(3)));
  Handle({AgentEnded{first}});
  const auto& prober = beating_.front().second;
  ASSERT_EQ(prober->probes.size(), 1U);
  // The loop was busy for a moment: the grace is over, and both are in one batch.
  now_ += milliseconds(1500);
  const auto again = std::make_shared<FakeAgent>();
  Handle({Said(prober, Id(2), protocol::ProbeAnswer{prober->probes[0].probe_id, true, ""}),
          Hello(again, Id(1))});
  EXPECT_FALSE(again->ended.has_value()) << again->ended->ToString();
  EXPECT_FALSE(again->orders.empty());
}

TEST_F(MachineDriverTest, ALoopThatWasAwayJudgesNobodyByWhatWaited) {
  const auto first = Attend(Id(1));
  beating_.emplace_back(Id(2), Attend(Id(2)));
  beating_.emplace_back(Id(3), Attend(Id(3)));
  Run(milliseconds(200));
  Handle({AgentEnded{first}});
  const auto& prober = beating_.front().second;
  ASSERT_EQ(prober->probes.size(), 1U);
  now_ += seconds(4);
  Handle({Said(prober, Id(2), protocol::ProbeAnswer{prober->probes[0].probe_id, true, ""})});
  EXPECT_TRUE(StateOf("n1").starts_with("suspect")) << StateOf("n1");
}

}  // namespace
}  // namespace muster::server
