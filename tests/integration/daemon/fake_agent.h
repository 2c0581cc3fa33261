#pragma once

// The smallest honest agent: says hello, obeys orders at once without starting any process, keeps
// what was not acknowledged and says it again. Thread-safe.

#include <atomic>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "rendezvousd/client/client.h"

namespace muster::testing {

class FakeAgent {
 public:
  // `client` outlives the agent.
  FakeAgent(client::Client* client, const std::string& node, std::uint64_t incarnation);
  ~FakeAgent();
  FakeAgent(const FakeAgent&) = delete;
  FakeAgent& operator=(const FakeAgent&) = delete;

  // Waits until the newest order is of this kind (and, with a round, of it); none after `limit`.
  std::optional<protocol::Order> WaitForOrder(protocol::OrderKind kind, Duration limit,
                                              std::uint32_t round = 0);
  // Waits until `count` streams have been connected in all.
  bool WaitForConnections(int count, Duration limit);
  // Why the stream ended for good, if it did.
  std::optional<Status> WaitForFinal(Duration limit);
  void SayDone();  // worker 0 exited with 0
  void SayExited(std::int32_t code);
  void SayBeat(std::uint64_t sequence);
  void SayProgress(std::int64_t step);
  std::optional<protocol::BeatAnswer> WaitForBeat(std::uint64_t sequence, Duration limit);
  int runs_seen(std::uint32_t round) const;  // distinct changes to "run this round"
  protocol::AgentId id() const { return id_; }
  protocol::Fence fence() const;

 private:
  void OnConnected();
  void OnMessage(const protocol::Downward& message);
  void Obey(const protocol::Order& order);
  void SayNumbered(protocol::UpwardBody body);

  const protocol::AgentId id_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<protocol::Order> order_;
  std::map<std::uint32_t, int> runs_;
  std::map<std::uint64_t, protocol::Upward> kept_;
  std::uint64_t last_number_ = 0;
  std::map<std::uint64_t, protocol::BeatAnswer> beats_;
  std::optional<Status> final_;
  int connections_ = 0;
  client::AttendSession* raw_ = nullptr;
  std::unique_ptr<client::AttendSession> session_;
};

}  // namespace muster::testing
