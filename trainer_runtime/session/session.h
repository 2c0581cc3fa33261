#pragma once

// Session: a worker's place in the run, by the agent's socket (proto/local.h).
//
// It knows the rounds as they come, tells progress, carries keys, barriers and requests, and calls
// back when a round ends. One thread of its own reads the socket; every call is thread-safe, has a
// deadline and raises no signal. Without MUSTER_AGENT_SOCKET it is a world of one: keys live in
// memory, barriers pass, no round ever ends.
//
// A round, seen from here: WaitForRound gives it; collectives run; when WatchRound's callback comes
// abort them, then Quiesced, then WaitForRound for a newer one. From Quiesced to the next round,
// and as soon as a round is ending, requests of round scope fail with Aborted. When the agent is
// gone everything fails with Unavailable: the worker should exit, nobody supervises it.
//
// Links libc and libstdc++ alone. Used by comm, muster-train and programs of other people.

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "common/status.h"
#include "common/time.h"
#include "proto/local.h"
#include "trainer_runtime/session/connection.h"
#include "trainer_runtime/session/local_keys.h"
#include "trainer_runtime/session/round_id.h"

namespace muster::session {

using local::KeyScope;
using local::Phase;
using local::RequestKind;

struct Options {
  std::string socket_path;  // empty: a world of one
  bool can_reform = false;  // the program stays alive and joins the next round in place
  Duration connect_timeout = std::chrono::seconds(10);
};
// From MUSTER_AGENT_SOCKET.
Options OptionsFromEnvironment();

// Leave after this step.
struct StopOrder {
  std::int64_t step = 0;
  std::string reason;
};

// While it lives its callback may come; once it is destroyed the callback neither runs nor comes.
class RoundWatch {
 public:
  RoundWatch() = default;
  RoundWatch(RoundWatch&&) noexcept = default;
  RoundWatch& operator=(RoundWatch&& other) noexcept;
  ~RoundWatch() { Cancel(); }
  void Cancel();

 private:
  friend class Session;
  struct State;
  explicit RoundWatch(std::shared_ptr<State> state) : state_(std::move(state)) {}
  std::shared_ptr<State> state_;
};

class Session {
 public:
  // A key's set, get and add, and requests: above the daemon's restart, below any hang limit.
  static constexpr Duration kRequestTimeout = std::chrono::seconds(30);

  // Connects and registers; the first round comes through WaitForRound.
  static Result<std::unique_ptr<Session>> Connect(const Options& options);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  bool alone() const { return connection_ == nullptr; }

  // The newest round above `newer_than`, even if it is ending already.
  Result<RoundInfo> WaitForRound(RoundId newer_than, Duration timeout);
  // Nothing before the first round.
  std::optional<RoundInfo> CurrentRound() const;
  // Calls `ended` once, from the reading thread (or at once from here), when `round` is ending, a
  // newer one has come, or the agent is gone. It must return quickly and must not destroy the
  // watch.
  RoundWatch WatchRound(RoundId round, std::function<void(const Status&)> ended);
  // Waits until `round` is ending, over, or the agent is gone; false after `timeout`.
  bool WaitForEnd(RoundId round, Duration timeout);
  // Why the current round is ending; OK while it is not.
  Status RoundState() const;
  std::optional<StopOrder> stop_order() const;

  // The step just finished; -1 before the first. Dropped rather than waiting for a slow agent.
  Status Progress(Phase phase, std::int64_t step);
  // All collectives of `round` are over here.
  Status Quiesced(RoundId round, std::int64_t last_step);
  // A communicator of `round` failed, whoever's fault it was.
  Status Broken(RoundId round, std::string_view reason);

  Status KeySet(KeyScope scope, std::string_view key, std::string_view value,
                Duration timeout = kRequestTimeout);
  Result<std::string> KeyGet(KeyScope scope, std::string_view key,
                             Duration timeout = kRequestTimeout);
  Result<std::string> KeyWait(KeyScope scope, std::string_view key, Duration timeout);
  // All asked for at once and answered in order. `stop` ends the wait with Aborted.
  Result<std::vector<std::string>> KeyWaitAll(KeyScope scope, const std::vector<std::string>& keys,
                                              Duration timeout, std::stop_token stop = {});
  Result<std::int64_t> KeyAdd(KeyScope scope, std::string_view key, std::int64_t delta,
                              Duration timeout = kRequestTimeout);
  // All ranks of the round meet.
  Status Barrier(std::string_view name, Duration timeout);
  Status Request(RequestKind kind, std::string_view reason);

 private:
  struct Answer {
    Status status;
    std::string value;
    std::int64_t number = 0;
  };
  struct Pending {
    bool of_round = false;
    std::optional<Answer> answer;
  };

  explicit Session(std::unique_ptr<Connection> connection);

  void ReadFrames();
  Status Dispatch(const Frame& frame);
  Status OnRound(local::FrameReader& reader);
  Status OnRoundEnding(local::FrameReader& reader);
  Status OnAnswer(local::FrameReader& reader);
  Status OnStopAt(local::FrameReader& reader);
  void OnLost(const Status& reason);

  // Under mutex_: fails pending requests of round scope and returns the watches to call.
  std::vector<std::shared_ptr<RoundWatch::State>> EndRounds(RoundId up_to, const Status& reason);
  static void Call(const std::vector<std::shared_ptr<RoundWatch::State>>& watches,
                   const Status& reason);

  // Registers a request; its id. Fails when its scope cannot be served now.
  Result<std::uint64_t> Open(bool of_round);
  void Forget(std::uint64_t id);
  // The answer of an opened request; forgets it.
  Answer Await(std::uint64_t id, TimePoint deadline, const std::stop_token& stop,
               std::string_view what);
  Answer Ask(bool of_round, Duration timeout, std::string_view what,
             const std::function<void(local::FrameWriter&, std::uint64_t)>& fill,
             local::FrameType type);

  std::unique_ptr<Connection> connection_;  // null: a world of one
  LocalKeys local_round_keys_, local_run_keys_;

  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  Status lost_;
  std::optional<RoundInfo> round_;
  Status ending_;  // of round_
  RoundId quiesced_;
  std::int64_t last_step_ = -1;
  std::optional<StopOrder> stop_order_;
  std::uint64_t next_id_ = 1;
  std::map<std::uint64_t, Pending> pending_;
  std::list<std::shared_ptr<RoundWatch::State>> watches_;

  std::jthread reader_;  // last: joined before anything it uses goes
};

}  // namespace muster::session
