#include "tests/integration/daemon/fake_agent.h"

#include <utility>

#include "tests/integration/daemon/daemon_process.h"

namespace muster::testing {

FakeAgent::FakeAgent(client::Client* client, const std::string& node, std::uint64_t incarnation)
    : id_{{node, 0, 0}, incarnation} {
  client::AttendEvents events;
  events.on_connected = [this] { OnConnected(); };
  events.on_message = [this](const protocol::Downward& message) { OnMessage(message); };
  events.on_disconnected = [this](const Status& status) {
    const std::lock_guard lock(mutex_);
    if (client::IsFinal(status)) final_ = status;
    changed_.notify_all();
  };
  const std::lock_guard lock(mutex_);
  session_ = client->Attend(std::move(events));
  raw_ = session_.get();
}

FakeAgent::~FakeAgent() { session_.reset(); }

void FakeAgent::OnConnected() {
  const std::lock_guard lock(mutex_);
  protocol::Hello hello;
  hello.version = Version();
  hello.run_id = "test-run";
  hello.address = "127.0.0.1";
  if (order_) hello.fence = order_->fence;
  if (order_ && order_->kind == protocol::OrderKind::kRun) {
    hello.workers.push_back({0, order_->fence, 1000, true, false, 0, -1});
  }
  raw_->Send({id_, 0, std::move(hello)});
  for (const auto& [number, message] : kept_) raw_->Send(message);
  ++connections_;
  changed_.notify_all();
}

void FakeAgent::OnMessage(const protocol::Downward& message) {
  const std::lock_guard lock(mutex_);
  if (const auto* order = std::get_if<protocol::Order>(&message)) {
    Obey(*order);
  } else if (const auto* acknowledge = std::get_if<protocol::Acknowledge>(&message)) {
    kept_.erase(kept_.begin(), kept_.upper_bound(acknowledge->number));
  } else if (const auto* beat = std::get_if<protocol::BeatAnswer>(&message)) {
    beats_[beat->sequence] = *beat;
  } else if (const auto* probe = std::get_if<protocol::Probe>(&message)) {
    raw_->Send({id_, 0, protocol::ProbeAnswer{probe->probe_id, true, "refused"}});
  }
  changed_.notify_all();
}

void FakeAgent::Obey(const protocol::Order& order) {
  const bool same = order_ && order_->kind == order.kind && order_->fence == order.fence;
  order_ = order;
  if (same) return;
  switch (order.kind) {
    case protocol::OrderKind::kWait:
      break;
    case protocol::OrderKind::kPrepare: {
      protocol::Ready ready;
      ready.fence = order.fence;
      if (order.assignment.first_rank == 0) {
        ready.master_address = "127.0.0.1";
        ready.master_port = 4321;
      }
      SayNumbered(std::move(ready));
      break;
    }
    case protocol::OrderKind::kRun:
      ++runs_[order.fence.round];
      break;
    case protocol::OrderKind::kClose:
      SayNumbered(protocol::Goodbye{"told to close"});
      break;
  }
}

void FakeAgent::SayNumbered(protocol::UpwardBody body) {
  protocol::Upward message{id_, ++last_number_, std::move(body)};
  raw_->Send(message);
  kept_[last_number_] = std::move(message);
}

void FakeAgent::SayExited(std::int32_t code) {
  const std::lock_guard lock(mutex_);
  protocol::WorkerExited exit;
  exit.fence = order_->fence;
  exit.pid = 1000;
  exit.exit_code = code;
  SayNumbered(std::move(exit));
}

void FakeAgent::SayDone() { SayExited(0); }

void FakeAgent::SayBeat(std::uint64_t sequence) {
  const std::lock_guard lock(mutex_);
  raw_->Send({id_, 0, protocol::Beat{sequence}});
}

void FakeAgent::SayProgress(std::int64_t step) {
  const std::lock_guard lock(mutex_);
  raw_->Send({id_, 0, protocol::WorkerProgress{order_->fence, 0, 1, step}});
}

std::optional<protocol::Order> FakeAgent::WaitForOrder(protocol::OrderKind kind, Duration limit,
                                                       std::uint32_t round) {
  std::unique_lock lock(mutex_);
  const bool there = changed_.wait_for(lock, limit, [&] {
    return order_ && order_->kind == kind && (round == 0 || order_->fence.round == round);
  });
  return there ? order_ : std::nullopt;
}

bool FakeAgent::WaitForConnections(int count, Duration limit) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, limit, [&] { return connections_ >= count; });
}

std::optional<Status> FakeAgent::WaitForFinal(Duration limit) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, limit, [&] { return final_.has_value(); });
  return final_;
}

std::optional<protocol::BeatAnswer> FakeAgent::WaitForBeat(std::uint64_t sequence, Duration limit) {
  std::unique_lock lock(mutex_);
  const bool there = changed_.wait_for(lock, limit, [&] { return beats_.contains(sequence); });
  return there ? std::optional(beats_.at(sequence)) : std::nullopt;
}

int FakeAgent::runs_seen(std::uint32_t round) const {
  const std::lock_guard lock(mutex_);
  const auto seen = runs_.find(round);
  return seen == runs_.end() ? 0 : seen->second;
}

protocol::Fence FakeAgent::fence() const {
  const std::lock_guard lock(mutex_);
  return order_ ? order_->fence : protocol::Fence{};
}

}  // namespace muster::testing
