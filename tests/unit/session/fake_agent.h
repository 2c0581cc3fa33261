#pragma once

// FakeAgent: an agent's socket for tests, speaking proto/local.h: rounds, keys, barriers, progress.
//
// It plays all agents of a small world at once and starts no process. A worker is known by its pid,
// once Expect has been called, else by the order of registration. One thread serves; all calls are
// thread-safe.

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "common/time.h"
#include "proto/local.h"

namespace muster::test {

class FakeAgent {
 public:
  // Listens in a temporary folder of its own, removed at the end.
  explicit FakeAgent(std::uint32_t world_size);
  ~FakeAgent();

  const std::string& socket_path() const { return path_; }
  void Expect(std::int32_t pid, std::uint32_t rank);
  // Sizes of the next round; ranks are given anew to whoever registers.
  void SetWorldSize(std::uint32_t world_size);

  // Sends the next round to all who are registered, and to all who register later.
  std::uint32_t BeginRound(const std::string& cause);
  // The ranks that were told: those registered by now.
  std::set<std::uint32_t> EndRound(const std::string& cause);
  void SendStopAt(std::int64_t step, const std::string& reason);
  // Raw bytes to every worker: what a broken agent might send.
  void SendRaw(const std::string& bytes);
  // Closes all connections, as if the agent had died.
  void CloseAll();
  // From now on no request is answered.
  void SetMute(bool mute);

  bool WaitRegistered(std::size_t count, Duration timeout);
  // Ranks that said kQuiesced for the current round.
  bool WaitQuiesced(const std::set<std::uint32_t>& ranks, Duration timeout);
  bool WaitProgress(std::uint32_t rank, std::int64_t step, Duration timeout);
  bool WaitUntil(const std::function<bool()>& condition, Duration timeout);

  std::int64_t last_step(std::uint32_t rank);
  std::int64_t quiesced_step(std::uint32_t rank);
  // How often anybody said kQuiesced.
  int quiesced_total();
  std::vector<std::string> broken_reasons();
  std::vector<std::pair<local::RequestKind, std::string>> requests();
  std::uint32_t flags(std::uint32_t rank);
  // When the first rank told its first finished step of a round.
  bool WaitFirstStep(std::uint32_t round, Duration timeout);
  TimePoint first_step(std::uint32_t round);
  std::size_t connected();

 private:
  struct Worker {
    int descriptor = -1;
    std::string input;
    std::string output;  // what the socket did not take yet
    std::int32_t pid = 0;
    std::optional<std::uint32_t> rank;
    std::uint32_t flags = 0;
    bool closed = false;
  };
  struct Waiter {
    std::weak_ptr<Worker> worker;
    std::uint64_t id = 0;
    TimePoint deadline;
    local::KeyScope scope{};
    std::string key;  // of a key wait
    std::string barrier;
  };

  void Serve();
  void Accept();
  void ReadFrom(const std::shared_ptr<Worker>& worker);
  void Handle(const std::shared_ptr<Worker>& worker, local::FrameType type,
              const std::string& payload);
  void HandleKey(const std::shared_ptr<Worker>& worker, local::FrameType type,
                 local::FrameReader& reader);
  void HandleBarrier(const std::shared_ptr<Worker>& worker, local::FrameReader& reader);
  void Answer(const std::shared_ptr<Worker>& worker, std::uint64_t id, std::uint32_t code,
              const std::string& message, const std::string& value, std::int64_t number);
  void SendRound(const std::shared_ptr<Worker>& worker);
  void Send(const std::shared_ptr<Worker>& worker, const std::string& bytes);
  void Flush(const std::shared_ptr<Worker>& worker);
  void AnswerWaiters();
  void Wake();

  std::string folder_, path_;
  int listener_ = -1, wake_ = -1;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stop_ = false, mute_ = false;
  std::uint32_t world_size_;
  std::uint32_t round_ = 0;
  bool running_ = false;
  std::string cause_;
  std::map<std::int32_t, std::uint32_t> expected_;
  std::vector<std::shared_ptr<Worker>> workers_;
  std::map<std::string, std::string> round_keys_, run_keys_;
  std::vector<Waiter> waiters_;
  std::map<std::uint32_t, std::int64_t> steps_, quiesced_;
  std::map<std::uint32_t, TimePoint> first_steps_;  // by round
  int quiesced_total_ = 0;
  std::vector<std::string> broken_;
  std::vector<std::pair<local::RequestKind, std::string>> requests_;
  std::jthread thread_;
};

}  // namespace muster::test
