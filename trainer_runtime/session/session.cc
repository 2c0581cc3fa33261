#include "trainer_runtime/session/session.h"

#include <unistd.h>

#include <cstdlib>
#include <utility>

#include "common/text.h"
#include "proto/environment.h"
#include "trainer_runtime/session/round_watch.h"

namespace muster::session {
namespace {

StatusCode CodeFromWire(std::uint32_t code) {
  return code <= static_cast<std::uint32_t>(StatusCode::kUnauthenticated)
             ? static_cast<StatusCode>(code)
             : StatusCode::kUnknown;
}

Status Malformed(std::string_view what) {
  return InvalidArgument(Concat("the agent sent a ", what, " frame that is cut short"));
}

RoundInfo WorldOfOne() {
  RoundInfo info;
  info.round = 1;
  info.master_address = "127.0.0.1";
  info.own_address = "127.0.0.1";
  info.cause = "initial";
  return info;
}

}  // namespace

Options OptionsFromEnvironment() {
  Options options;
  if (const char* path = std::getenv(environment::kAgentSocket)) options.socket_path = path;
  return options;
}

Result<std::unique_ptr<Session>> Session::Connect(const Options& options) {
  if (options.socket_path.empty()) {
    std::unique_ptr<Session> session(new Session(nullptr));
    session->round_ = WorldOfOne();
    return session;
  }
  MUSTER_ASSIGN_OR_RETURN(Connection connection,
                          Connection::Connect(options.socket_path, options.connect_timeout));
  std::unique_ptr<Session> session(
      new Session(std::make_unique<Connection>(std::move(connection))));
  local::FrameWriter frame(local::FrameType::kRegister);
  frame.Add(std::uint32_t{options.can_reform ? local::kCanReform : 0U})
      .Add(static_cast<std::int32_t>(getpid()));
  MUSTER_RETURN_IF_ERROR(session->connection_->Send(frame.Finish()));
  session->reader_ = std::jthread([raw = session.get()] { raw->ReadFrames(); });
  return session;
}

Session::Session(std::unique_ptr<Connection> connection) : connection_(std::move(connection)) {}

Session::~Session() {
  if (connection_ != nullptr) connection_->Shutdown();
}

// ------------------------------------------------------------------------------- the reader

void Session::ReadFrames() {
  while (true) {
    Result<Frame> frame = connection_->Receive();
    const Status status = frame.ok() ? Dispatch(*frame) : frame.status();
    if (!status.ok()) {
      OnLost(status);
      return;
    }
  }
}

Status Session::Dispatch(const Frame& frame) {
  local::FrameReader reader(frame.payload);
  // Types of later versions are ignored, so this is no switch over all enumerators.
  if (frame.type == local::FrameType::kRound) return OnRound(reader);
  if (frame.type == local::FrameType::kRoundEnding) return OnRoundEnding(reader);
  if (frame.type == local::FrameType::kAnswer) return OnAnswer(reader);
  if (frame.type == local::FrameType::kStopAt) return OnStopAt(reader);
  return OkStatus();
}

Status Session::OnRound(local::FrameReader& reader) {
  RoundInfo info;
  if (!info.Read(&reader)) return Malformed("round");
  if (info.world_size == 0 || info.rank >= info.world_size) {
    return InvalidArgument(Concat("the agent gave rank ", info.rank, " of ", info.world_size));
  }
  const Status reason = Aborted(Concat(ToString(IdOf(info)), " has begun: ", info.cause));
  std::vector<std::shared_ptr<RoundWatch::State>> watches;
  {
    const std::lock_guard lock(mutex_);
    if (round_ && IdOf(info) <= IdOf(*round_)) return OkStatus();  // said twice: harmless
    if (round_) watches = EndRounds(IdOf(*round_), reason);
    round_ = std::move(info);
    ending_ = OkStatus();
  }
  changed_.notify_all();
  Call(watches, reason);
  return OkStatus();
}

Status Session::OnRoundEnding(local::FrameReader& reader) {
  RoundId id;
  std::string cause;
  if (!reader.Read(&id.attempt) || !reader.Read(&id.round) || !reader.Read(&cause)) {
    return Malformed("round ending");
  }
  const Status reason = Aborted(Concat(ToString(id), " is ending: ", cause));
  std::vector<std::shared_ptr<RoundWatch::State>> watches;
  bool nothing_to_abort = false;
  std::int64_t step = -1;
  {
    const std::lock_guard lock(mutex_);
    // A round that never came here, or one that is quiet already: nobody else will answer.
    nothing_to_abort = !round_ || id > IdOf(*round_) || id <= quiesced_;
    step = last_step_;
    if (round_ && id == IdOf(*round_) && ending_.ok()) {
      ending_ = reason;
      watches = EndRounds(id, reason);
    }
  }
  changed_.notify_all();
  Call(watches, reason);
  return nothing_to_abort ? Quiesced(id, step) : OkStatus();
}

Status Session::OnAnswer(local::FrameReader& reader) {
  std::uint64_t id = 0;
  std::uint32_t code = 0;
  std::string message;
  Answer answer;
  if (!reader.Read(&id) || !reader.Read(&code) || !reader.Read(&message) ||
      !reader.Read(&answer.value) || !reader.Read(&answer.number)) {
    return Malformed("answer");
  }
  if (code != 0) answer.status = Status(CodeFromWire(code), std::move(message));
  {
    const std::lock_guard lock(mutex_);
    const auto place = pending_.find(id);
    if (place == pending_.end()) return OkStatus();  // given up meanwhile
    if (!place->second.answer) place->second.answer = std::move(answer);
  }
  changed_.notify_all();
  return OkStatus();
}

Status Session::OnStopAt(local::FrameReader& reader) {
  StopOrder order;
  if (!reader.Read(&order.step) || !reader.Read(&order.reason)) return Malformed("stop");
  {
    const std::lock_guard lock(mutex_);
    stop_order_ = std::move(order);
  }
  changed_.notify_all();
  return OkStatus();
}

void Session::OnLost(const Status& reason) {
  std::vector<std::shared_ptr<RoundWatch::State>> watches;
  {
    const std::lock_guard lock(mutex_);
    lost_ = Unavailable(reason.message());
    for (auto& [id, pending] : pending_) {
      if (!pending.answer) pending.answer = Answer{lost_, {}, 0};
    }
    watches.assign(watches_.begin(), watches_.end());
    watches_.clear();
  }
  changed_.notify_all();
  Call(watches, lost_);
}

std::vector<std::shared_ptr<RoundWatch::State>> Session::EndRounds(RoundId up_to,
                                                                   const Status& reason) {
  for (auto& [id, pending] : pending_) {
    if (pending.of_round && !pending.answer) pending.answer = Answer{reason, {}, 0};
  }
  std::vector<std::shared_ptr<RoundWatch::State>> called;
  std::erase_if(watches_, [&](const std::shared_ptr<RoundWatch::State>& watch) {
    if (watch->round > up_to) return watch->done();
    called.push_back(watch);
    return true;
  });
  return called;
}

void Session::Call(const std::vector<std::shared_ptr<RoundWatch::State>>& watches,
                   const Status& reason) {
  for (const auto& watch : watches) watch->Call(reason);
}

// ------------------------------------------------------------------------------- rounds

Result<RoundInfo> Session::WaitForRound(RoundId newer_than, Duration timeout) {
  std::unique_lock lock(mutex_);
  const bool came = changed_.wait_until(lock, SteadyNow() + timeout, [&] {
    return !lost_.ok() || (round_ && IdOf(*round_) > newer_than);
  });
  if (!lost_.ok()) return lost_;
  if (!came) {
    return DeadlineExceeded(
        Concat("no round after ", ToString(newer_than), " came within ", FormatDuration(timeout)));
  }
  return *round_;
}

std::optional<RoundInfo> Session::CurrentRound() const {
  const std::lock_guard lock(mutex_);
  return round_;
}

RoundWatch Session::WatchRound(RoundId round, std::function<void(const Status&)> ended) {
  auto state = std::make_shared<RoundWatch::State>();
  state->round = round;
  state->ended = std::move(ended);
  Status reason;
  {
    const std::lock_guard lock(mutex_);
    std::erase_if(watches_, [](const auto& watch) { return watch->done(); });
    if (!lost_.ok()) {
      reason = lost_;
    } else if (round_ && round < IdOf(*round_)) {
      reason = Aborted(Concat(ToString(round), " is over, ", ToString(IdOf(*round_)), " runs"));
    } else if (round_ && round == IdOf(*round_)) {
      reason = ending_;
    }
    if (reason.ok()) watches_.push_back(state);
  }
  if (!reason.ok()) state->Call(reason);
  return RoundWatch(std::move(state));
}

bool Session::WaitForEnd(RoundId round, Duration timeout) {
  std::unique_lock lock(mutex_);
  return changed_.wait_until(lock, SteadyNow() + timeout, [&] {
    return !lost_.ok() || !round_ || round < IdOf(*round_) ||
           (round == IdOf(*round_) && !ending_.ok());
  });
}

Status Session::RoundState() const {
  const std::lock_guard lock(mutex_);
  return lost_.ok() ? ending_ : lost_;
}

std::optional<StopOrder> Session::stop_order() const {
  const std::lock_guard lock(mutex_);
  return stop_order_;
}

Status Session::Progress(Phase phase, std::int64_t step) {
  {
    const std::lock_guard lock(mutex_);
    last_step_ = step;
    if (!lost_.ok()) return lost_;
  }
  if (alone()) return OkStatus();
  local::FrameWriter frame(local::FrameType::kProgress);
  return connection_->SendOrDrop(frame.Add(phase).Add(step).Finish());
}

Status Session::Quiesced(RoundId round, std::int64_t last_step) {
  {
    const std::lock_guard lock(mutex_);
    if (!lost_.ok()) return lost_;
    if (round > quiesced_) quiesced_ = round;
  }
  if (alone()) return OkStatus();
  local::FrameWriter frame(local::FrameType::kQuiesced);
  return connection_->Send(frame.Add(round.attempt).Add(round.round).Add(last_step).Finish());
}

Status Session::Broken(RoundId round, std::string_view reason) {
  if (alone()) return OkStatus();
  local::FrameWriter frame(local::FrameType::kBroken);
  return connection_->Send(frame.Add(round.attempt).Add(round.round).Add(reason).Finish());
}

}  // namespace muster::session
