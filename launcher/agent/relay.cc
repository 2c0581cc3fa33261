#include "launcher/agent/relay.h"

#include <algorithm>

#include "common/text.h"

namespace muster::agent {
namespace {

// For operations without a time of their own: a daemon's restart fits in.
constexpr Duration kKeyDeadline = std::chrono::seconds(30);
// Between two tries while the daemon cannot be reached.
constexpr Duration kRetryPause = std::chrono::milliseconds(200);

bool WorthRetrying(const Status& status) { return status.code() == StatusCode::kUnavailable; }

}  // namespace

struct Relay::KeyCall {
  ConnectionId connection = 0;
  std::uint64_t id = 0;
  protocol::KeyRequest request;
  TimePoint until{};
};

struct Relay::BarrierCall {
  struct Caller {
    ConnectionId connection = 0;
    std::uint64_t id = 0;
    TimePoint until{};
  };
  protocol::BarrierRequest request;
  std::set<std::uint32_t> wanted;
  std::map<std::uint32_t, Caller> callers;  // by rank
  bool sent = false;
};

Relay::Relay(EventLoop* loop, client::Client* client, protocol::AgentId agent, Answer answer)
    : loop_(loop), client_(client), agent_(std::move(agent)), answer_(std::move(answer)) {}

Relay::~Relay() = default;

void Relay::PostIfAlive(EventLoop* loop, std::weak_ptr<bool> alive, std::function<void()> work) {
  loop->Post([alive = std::move(alive), work = std::move(work)] {
    if (alive.lock()) work();
  });
}

void Relay::Later(std::function<void()> work) {
  loop_->After(kRetryPause, [alive = std::weak_ptr<bool>(alive_), work = std::move(work)] {
    if (alive.lock()) work();
  });
}

void Relay::Reply(ConnectionId connection, std::uint64_t id, const Status& status,
                  const std::string& value, std::int64_t number) {
  local::FrameWriter writer(local::FrameType::kAnswer);
  writer.Add(id).Add(static_cast<std::uint32_t>(status.code())).Add(status.message());
  writer.Add(value).Add(number);
  answer_(connection, writer.Finish());
}

void Relay::Key(ConnectionId connection, const RelayCaller& caller, LocalKey message) {
  auto call = std::make_shared<KeyCall>();
  call->connection = connection;
  call->id = message.id;
  // Reading twice is harmless; the daemon remembers answers only for what changes something.
  const bool changes = message.operation == protocol::KeyOperation::kSet ||
                       message.operation == protocol::KeyOperation::kAdd;
  call->request.id = {agent_, changes ? next_number_++ : 0};
  call->request.fence = caller.fence;
  call->request.of_run = message.of_run;
  call->request.operation = message.operation;
  call->request.key = std::move(message.key);
  call->request.value = std::move(message.value);
  call->request.delta = message.delta;
  const bool waits = message.operation == protocol::KeyOperation::kWait;
  call->until = SteadyNow() + (waits ? message.timeout : kKeyDeadline);
  SendKey(std::move(call));
}

void Relay::SendKey(std::shared_ptr<KeyCall> call) {
  const Duration left = std::max<Duration>(call->until - SteadyNow(), std::chrono::milliseconds(1));
  const auto done = [this, call](const protocol::KeyAnswer& answer) {
    if (WorthRetrying(answer.status) && SteadyNow() + kRetryPause < call->until) {
      Later([this, call] { SendKey(call); });
      return;
    }
    Reply(call->connection, call->id, answer.status, answer.value, answer.number);
  };
  client_->Key(
      call->request, left,
      [loop = loop_, alive = std::weak_ptr<bool>(alive_), done](protocol::KeyAnswer answer) {
        PostIfAlive(loop, alive, [done, answer = std::move(answer)] { done(answer); });
      });
}

void Relay::Barrier(ConnectionId connection, const RelayCaller& caller, LocalBarrier message) {
  std::shared_ptr<BarrierCall>& call = barriers_[{caller.fence, message.name}];
  if (!call) {
    call = std::make_shared<BarrierCall>();
    call->request.fence = caller.fence;
    call->request.name = message.name;
    call->wanted = caller.agent_ranks;
  }
  if (call->callers.contains(caller.rank)) {
    Reply(connection, message.id,
          AlreadyExists(
              Concat("rank ", caller.rank, " waits in barrier ", Quote(message.name), " already")));
    return;
  }
  const TimePoint until = SteadyNow() + message.timeout;
  call->callers[caller.rank] = {connection, message.id, until};
  const std::shared_ptr<BarrierCall> kept = call;
  loop_->At(until, [this, alive = std::weak_ptr<bool>(alive_), kept, rank = caller.rank] {
    if (!alive.lock()) return;
    const auto found = kept->callers.find(rank);
    if (kept->sent || found == kept->callers.end()) return;  // the daemon answers in time
    std::vector<std::string> missing;
    for (const std::uint32_t wanted : kept->wanted) {
      if (!kept->callers.contains(wanted)) missing.push_back(std::to_string(wanted));
    }
    Reply(found->second.connection, found->second.id,
          DeadlineExceeded(Concat("barrier ", Quote(kept->request.name), ": on this node rank ",
                                  Join(missing, ", "), " did not come")));
    kept->callers.erase(found);
    const auto entry = barriers_.find({kept->request.fence, kept->request.name});
    if (kept->callers.empty() && entry != barriers_.end() && entry->second == kept) {
      barriers_.erase(entry);
    }
  });
  if (call->callers.size() < call->wanted.size()) return;
  call->sent = true;
  call->request.id = {agent_, next_number_++};
  for (const auto& [rank, waiting] : call->callers) call->request.ranks.push_back(rank);
  // The name may be used again while this one is under way.
  barriers_.erase({caller.fence, message.name});
  SendBarrier(kept);
}

void Relay::SendBarrier(std::shared_ptr<BarrierCall> call) {
  TimePoint until = call->callers.begin()->second.until;
  for (const auto& [rank, waiting] : call->callers) until = std::min(until, waiting.until);
  const Duration left = std::max<Duration>(until - SteadyNow(), std::chrono::milliseconds(1));
  const auto done = [this, call, until](const Status& status) {
    if (WorthRetrying(status) && SteadyNow() + kRetryPause < until) {
      Later([this, call] { SendBarrier(call); });
      return;
    }
    EndBarrier(call, status);
  };
  client_->Barrier(call->request, left,
                   [loop = loop_, alive = std::weak_ptr<bool>(alive_), done](Status status) {
                     PostIfAlive(loop, alive, [done, status = std::move(status)] { done(status); });
                   });
}

void Relay::EndRounds(const protocol::Fence& newest) {
  while (!barriers_.empty() && barriers_.begin()->first.first <= newest) {
    const std::shared_ptr<BarrierCall> call = barriers_.begin()->second;
    barriers_.erase(barriers_.begin());
    EndBarrier(call, FailedPrecondition(Concat("barrier ", Quote(call->request.name), " is of ",
                                               protocol::ToString(call->request.fence),
                                               ", which has ended")));
    call->callers.clear();
  }
}

void Relay::EndBarrier(const std::shared_ptr<BarrierCall>& call, const Status& status) {
  for (const auto& [rank, waiting] : call->callers) Reply(waiting.connection, waiting.id, status);
}

}  // namespace muster::agent
