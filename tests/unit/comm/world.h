#pragma once

// A world of ranks in one process, a thread each, for tests of process groups.

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "tests/unit/session/fake_agent.h"
#include "trainer_runtime/comm/gloo_group.h"

namespace muster::test {

inline std::unique_ptr<session::Session> ConnectTo(const FakeAgent& agent) {
  session::Options options;
  options.socket_path = agent.socket_path();
  options.can_reform = true;
  auto session = session::Session::Connect(options);
  EXPECT_TRUE(session.ok()) << session.status().ToString();
  return std::move(session).value();
}

class World {
 public:
  explicit World(int size) : agent_(static_cast<std::uint32_t>(size)) {
    for (int rank = 0; rank < size; ++rank) {
      sessions_.push_back(ConnectTo(agent_));
      EXPECT_TRUE(
          agent_.WaitRegistered(static_cast<std::size_t>(rank) + 1, std::chrono::seconds(10)));
    }
    agent_.BeginRound("initial");
  }

  FakeAgent& agent() { return agent_; }
  int size() const { return static_cast<int>(sessions_.size()); }
  session::Session& session(int rank) { return *sessions_[static_cast<std::size_t>(rank)]; }
  session::RoundInfo Round(int rank, session::RoundId newer_than = {}) {
    auto info = session(rank).WaitForRound(newer_than, std::chrono::seconds(10));
    EXPECT_TRUE(info.ok()) << info.status().ToString();
    return *info;
  }
  // The same on every rank, at once.
  void OnEach(const std::function<void(int rank)>& body) {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < size(); ++rank) {
      threads.emplace_back([&body, rank] { body(rank); });
    }
  }
  // A group of the newest round on every rank.
  void WithGroups(const std::function<void(int rank, comm::ProcessGroup& group)>& body,
                  const comm::GlooOptions& options = {}) {
    OnEach([&](int rank) {
      auto group = comm::CreateGlooGroup(session(rank), Round(rank), options);
      ASSERT_TRUE(group.ok()) << group.status().ToString();
      body(rank, **group);
      (*group)->Close();
    });
  }

 private:
  FakeAgent agent_;
  std::vector<std::unique_ptr<session::Session>> sessions_;
};

}  // namespace muster::test
