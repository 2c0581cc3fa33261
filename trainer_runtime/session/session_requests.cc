// Session's numbered requests: keys, barriers, wishes. The frames' reader is in session.cc.

#include <utility>

#include "common/text.h"
#include "trainer_runtime/session/session.h"

namespace muster::session {
namespace {

// The agent answers before a deadline that was passed to it; this is for the way back.
constexpr Duration kAnswerGrace = std::chrono::seconds(2);

std::uint64_t Milliseconds(Duration timeout) {
  const auto whole = std::chrono::ceil<std::chrono::milliseconds>(timeout).count();
  return whole > 0 ? static_cast<std::uint64_t>(whole) : 0;
}

}  // namespace

Result<std::uint64_t> Session::Open(bool of_round) {
  const std::lock_guard lock(mutex_);
  if (!lost_.ok()) return lost_;
  if (of_round) {
    if (!round_) return FailedPrecondition("no round has begun yet");
    if (!ending_.ok()) return ending_;
    if (IdOf(*round_) <= quiesced_) {
      return Aborted(Concat(ToString(IdOf(*round_)), " was left; wait for the next round"));
    }
  }
  pending_.emplace(next_id_, Pending{of_round, std::nullopt});
  return next_id_++;
}

void Session::Forget(std::uint64_t id) {
  const std::lock_guard lock(mutex_);
  pending_.erase(id);
}

Session::Answer Session::Await(std::uint64_t id, TimePoint deadline, const std::stop_token& stop,
                               std::string_view what) {
  std::unique_lock lock(mutex_);
  Pending& pending = pending_.at(id);
  changed_.wait_until(lock, stop, deadline, [&] { return pending.answer.has_value(); });
  Answer answer;
  if (pending.answer) {
    answer = std::move(*pending.answer);
  } else if (stop.stop_requested()) {
    answer.status = Aborted(Concat(what, " was given up"));
  } else {
    answer.status = DeadlineExceeded(Concat("the agent gave no answer to ", what, " in time"));
  }
  pending_.erase(id);
  return answer;
}

Session::Answer Session::Ask(bool of_round, Duration timeout, std::string_view what,
                             const std::function<void(local::FrameWriter&, std::uint64_t)>& fill,
                             local::FrameType type) {
  const Result<std::uint64_t> id = Open(of_round);
  if (!id.ok()) return {id.status(), {}, 0};
  local::FrameWriter frame(type);
  fill(frame, *id);
  const std::string& bytes = frame.Finish();
  Status status;
  if (bytes.size() - local::kHeaderBytes > local::kFrameBytesMax) {
    status = InvalidArgument(Concat(what, " has ", bytes.size(), " bytes; at most ",
                                    local::kFrameBytesMax, " fit, use a file"));
  } else {
    status = connection_->Send(bytes);
  }
  if (!status.ok()) {
    Forget(*id);
    return {status, {}, 0};
  }
  return Await(*id, SteadyNow() + timeout + kAnswerGrace, {}, what);
}

Status Session::KeySet(KeyScope scope, std::string_view key, std::string_view value,
                       Duration timeout) {
  if (alone()) {
    return (scope == KeyScope::kRound ? local_round_keys_ : local_run_keys_)
        .Set(std::string(key), std::string(value));
  }
  return Ask(
             scope == KeyScope::kRound, timeout, Concat("setting key ", Quote(key)),
             [&](local::FrameWriter& frame, std::uint64_t id) {
               frame.Add(id).Add(scope).Add(key).Add(value);
             },
             local::FrameType::kKeySet)
      .status;
}

Result<std::string> Session::KeyGet(KeyScope scope, std::string_view key, Duration timeout) {
  if (alone()) {
    return (scope == KeyScope::kRound ? local_round_keys_ : local_run_keys_).Get(std::string(key));
  }
  Answer answer = Ask(
      scope == KeyScope::kRound, timeout, Concat("getting key ", Quote(key)),
      [&](local::FrameWriter& frame, std::uint64_t id) { frame.Add(id).Add(scope).Add(key); },
      local::FrameType::kKeyGet);
  if (!answer.status.ok()) return answer.status;
  return std::move(answer.value);
}

Result<std::string> Session::KeyWait(KeyScope scope, std::string_view key, Duration timeout) {
  MUSTER_ASSIGN_OR_RETURN(std::vector<std::string> values,
                          KeyWaitAll(scope, {std::string(key)}, timeout));
  return std::move(values.front());
}

Result<std::vector<std::string>> Session::KeyWaitAll(KeyScope scope,
                                                     const std::vector<std::string>& keys,
                                                     Duration timeout, std::stop_token stop) {
  std::vector<std::string> values;
  if (alone()) {
    const LocalKeys& store = scope == KeyScope::kRound ? local_round_keys_ : local_run_keys_;
    for (const std::string& key : keys) {
      MUSTER_ASSIGN_OR_RETURN(values.emplace_back(), store.Wait(key, timeout));
    }
    return values;
  }
  const TimePoint deadline = SteadyNow() + timeout + kAnswerGrace;
  std::vector<std::uint64_t> ids;
  Status status;
  for (const std::string& key : keys) {
    const Result<std::uint64_t> id = Open(scope == KeyScope::kRound);
    if (!id.ok()) {
      status = id.status();
      break;
    }
    ids.push_back(*id);
    local::FrameWriter frame(local::FrameType::kKeyWait);
    frame.Add(*id).Add(scope).Add(Milliseconds(timeout)).Add(key);
    status = connection_->Send(frame.Finish());
    if (!status.ok()) break;
  }
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (!status.ok()) {
      Forget(ids[i]);
      continue;
    }
    Answer answer = Await(ids[i], deadline, stop, Concat("waiting for key ", Quote(keys[i])));
    status = std::move(answer.status);
    values.push_back(std::move(answer.value));
  }
  if (!status.ok()) return status;
  return values;
}

Result<std::int64_t> Session::KeyAdd(KeyScope scope, std::string_view key, std::int64_t delta,
                                     Duration timeout) {
  if (alone()) {
    return (scope == KeyScope::kRound ? local_round_keys_ : local_run_keys_)
        .Add(std::string(key), delta);
  }
  const Answer answer = Ask(
      scope == KeyScope::kRound, timeout, Concat("adding to key ", Quote(key)),
      [&](local::FrameWriter& frame, std::uint64_t id) {
        frame.Add(id).Add(scope).Add(delta).Add(key);
      },
      local::FrameType::kKeyAdd);
  if (!answer.status.ok()) return answer.status;
  return answer.number;
}

Status Session::Barrier(std::string_view name, Duration timeout) {
  if (alone()) return OkStatus();
  return Ask(
             true, timeout, Concat("barrier ", Quote(name)),
             [&](local::FrameWriter& frame, std::uint64_t id) {
               frame.Add(id).Add(Milliseconds(timeout)).Add(name);
             },
             local::FrameType::kBarrier)
      .status;
}

Status Session::Request(RequestKind kind, std::string_view reason) {
  if (alone()) return FailedPrecondition("no agent: this program was not started by muster");
  return Ask(
             false, kRequestTimeout, "a request",
             [&](local::FrameWriter& frame, std::uint64_t id) {
               frame.Add(id).Add(kind).Add(reason);
             },
             local::FrameType::kRequest)
      .status;
}

}  // namespace muster::session
