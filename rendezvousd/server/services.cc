#include "rendezvousd/server/services.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "rendezvousd/protocol/conversion.h"
#include "rendezvousd/server/server_stream.h"

namespace muster::server {
namespace {

// The machine's answer leaves this long before the caller's deadline, so that the caller learns the
// reason and not only that time is up.
constexpr Duration kAnswerAhead = std::chrono::milliseconds(50);
// A deadline further away is as good as none, and the clocks' arithmetic stays within bounds.
constexpr Duration kDeadlineMax = std::chrono::hours(24 * 30);

grpc::Status ToGrpc(const Status& status) {
  return {static_cast<grpc::StatusCode>(status.code()), status.message()};
}

Status CheckOpen(const Gate* open) {
  return *open ? OkStatus() : Unavailable("the daemon is stopping; try again");
}

// A reactor that only refuses.
template <typename Reactor>
Reactor* Refuse(const Status& status) {
  class Refusal final : public Reactor {
   public:
    explicit Refusal(const Status& reason) { this->Finish(ToGrpc(reason)); }
    void OnDone() override { delete this; }
  };
  return new Refusal(status);
}

// When to answer a call, in steady time. InvalidArgument without a deadline.
Result<TimePoint> AnswerBy(const grpc::CallbackServerContext& context) {
  const auto deadline = context.deadline();
  const auto now = std::chrono::system_clock::now();
  if (deadline - now > std::chrono::hours(24 * 365)) {
    return InvalidArgument("every call needs a deadline");
  }
  const Duration left = std::min<Duration>(deadline - now, kDeadlineMax);
  return SteadyNow() + std::max(left - kAnswerAhead, left / 2);
}

// A stream as the loop knows it: Peer has End() and Consumed().
template <typename In, typename Out, typename Peer>
class PeerStream : public ServerStream<In, Out>, public Peer {
 public:
  explicit PeerStream(Inbox* inbox) : inbox_(inbox) {}

  void End(Status reason) final { this->EndStream(reason); }
  void Consumed() final { this->HandledOne(); }

 protected:
  void Post(Input input) { inbox_->Post(std::move(input)); }
  std::shared_ptr<Peer> Self() { return {this->shared_from_this(), static_cast<Peer*>(this)}; }

 private:
  Inbox* const inbox_;
};

class AttendStream final : public PeerStream<v1::Upward, v1::Downward, AgentPeer> {
 public:
  using PeerStream::PeerStream;

  void Send(protocol::Downward message) override {
    v1::Downward wire;
    ToProto(message, &wire);
    SendOut(std::move(wire));
  }

 private:
  Status OnMessage(const v1::Upward& wire) override {
    MUSTER_ASSIGN_OR_RETURN(auto message, protocol::FromProto(wire));
    Post(AgentSaid{Self(), std::move(message)});
    return OkStatus();
  }
  void OnEnded() override { Post(AgentEnded{Self()}); }
  // An order is complete by itself, and of acknowledgements the highest counts.
  bool Supersedes(const v1::Downward& newer, const v1::Downward& queued) const override {
    if (newer.body_case() != queued.body_case()) return false;
    return newer.has_order() || (newer.has_acknowledge() &&
                                 newer.acknowledge().number() >= queued.acknowledge().number());
  }
};

class HostStream final : public PeerStream<v1::HostUp, v1::Wishes, HostPeer> {
 public:
  using PeerStream::PeerStream;

  void Attach() { Post(HostAttached{Self()}); }
  void Send(std::vector<protocol::Wish> wishes) override {
    v1::Wishes wire;
    ToProto(wishes, &wire);
    SendOut(std::move(wire));
  }

 private:
  Status OnMessage(const v1::HostUp& wire) override {
    MUSTER_ASSIGN_OR_RETURN(auto message, protocol::FromProto(wire));
    Post(HostSaid{Self(), std::move(message)});
    return OkStatus();
  }
  void OnEnded() override { Post(HostEnded{Self()}); }
  bool Supersedes(const v1::Wishes& /*newer*/, const v1::Wishes& /*queued*/) const override {
    return true;  // the whole set each time
  }
};

// A unary call that the loop answers. Owns itself until gRPC is done with it.
template <typename Value, typename Wire>
class UnaryCall final : public grpc::ServerUnaryReactor,
                        public Reply<Value>,
                        public std::enable_shared_from_this<UnaryCall<Value, Wire>> {
 public:
  using Write = void (*)(const Value&, Wire*);

  UnaryCall(Inbox* inbox, core::Token token, Wire* answer, Write write)
      : inbox_(inbox), token_(token), answer_(answer), write_(write) {}

  std::shared_ptr<UnaryCall> Begin() { return self_ = this->shared_from_this(); }
  void Send(const Value& value) override {
    const std::lock_guard lock(mutex_);
    if (std::exchange(answered_, true)) return;
    write_(value, answer_);
    this->Finish(grpc::Status::OK);
  }
  // Finished here and not by the loop, which may have ended: an open call would keep the server's
  // shutdown waiting for ever.
  void OnCancel() override {
    if (token_ != 0) inbox_->Post(CallGone{token_});
    const std::lock_guard lock(mutex_);
    if (!std::exchange(answered_, true)) this->Finish(grpc::Status::CANCELLED);
  }
  void OnDone() override { self_.reset(); }

 private:
  Inbox* const inbox_;
  const core::Token token_;  // 0: none, the loop answers at once
  Wire* const answer_;
  const Write write_;
  std::shared_ptr<UnaryCall> self_;
  std::mutex mutex_;
  bool answered_ = false;
};

// Operate's answer is gRPC's status itself.
class OperateCall final : public grpc::ServerUnaryReactor,
                          public OperateReply,
                          public std::enable_shared_from_this<OperateCall> {
 public:
  std::shared_ptr<OperateCall> Begin() { return self_ = shared_from_this(); }
  void Send(const Status& status) override {
    const std::lock_guard lock(mutex_);
    if (!std::exchange(answered_, true)) Finish(ToGrpc(status));
  }
  void OnCancel() override { Send(Cancelled("the caller is gone")); }
  void OnDone() override { self_.reset(); }

 private:
  std::shared_ptr<OperateCall> self_;
  std::mutex mutex_;
  bool answered_ = false;
};

}  // namespace

grpc::ServerBidiReactor<v1::Upward, v1::Downward>* RendezvousService::Attend(
    grpc::CallbackServerContext* context) {
  using Reactor = grpc::ServerBidiReactor<v1::Upward, v1::Downward>;
  if (const Status open = CheckOpen(open_); !open.ok()) return Refuse<Reactor>(open);
  const auto stream = std::make_shared<AttendStream>(inbox_);
  stream->Start(context);
  return stream.get();
}

grpc::ServerUnaryReactor* RendezvousService::Key(grpc::CallbackServerContext* context,
                                                 const v1::KeyRequest* request,
                                                 v1::KeyAnswer* answer) {
  if (const Status open = CheckOpen(open_); !open.ok()) {
    return Refuse<grpc::ServerUnaryReactor>(open);
  }
  auto message = protocol::FromProto(*request);
  if (!message.ok()) return Refuse<grpc::ServerUnaryReactor>(message.status());
  const auto answer_by = AnswerBy(*context);
  if (!answer_by.ok()) return Refuse<grpc::ServerUnaryReactor>(answer_by.status());
  const core::Token token = inbox_->NextToken();
  using Call = UnaryCall<protocol::KeyAnswer, v1::KeyAnswer>;
  const auto call =
      std::make_shared<Call>(inbox_, token, answer, [](const auto& value, v1::KeyAnswer* out) {
        ToProto(value, out);
      })->Begin();
  inbox_->Post(KeyAsked{token, std::move(*message), *answer_by, call});
  return call.get();
}

grpc::ServerUnaryReactor* RendezvousService::Barrier(grpc::CallbackServerContext* context,
                                                     const v1::BarrierRequest* request,
                                                     v1::BarrierAnswer* answer) {
  if (const Status open = CheckOpen(open_); !open.ok()) {
    return Refuse<grpc::ServerUnaryReactor>(open);
  }
  auto message = protocol::FromProto(*request);
  if (!message.ok()) return Refuse<grpc::ServerUnaryReactor>(message.status());
  const auto answer_by = AnswerBy(*context);
  if (!answer_by.ok()) return Refuse<grpc::ServerUnaryReactor>(answer_by.status());
  const core::Token token = inbox_->NextToken();
  using Call = UnaryCall<Status, v1::BarrierAnswer>;
  const auto call = std::make_shared<Call>(inbox_, token, answer,
                                           [](const Status& value, v1::BarrierAnswer* out) {
                                             protocol::ToProto(value, out);
                                           })
                        ->Begin();
  inbox_->Post(BarrierAsked{token, std::move(*message), *answer_by, call});
  return call.get();
}

grpc::ServerBidiReactor<v1::HostUp, v1::Wishes>* HostService::Serve(
    grpc::CallbackServerContext* context) {
  using Reactor = grpc::ServerBidiReactor<v1::HostUp, v1::Wishes>;
  if (const Status open = CheckOpen(open_); !open.ok()) return Refuse<Reactor>(open);
  const auto stream = std::make_shared<HostStream>(inbox_);
  stream->Attach();
  stream->Start(context);
  return stream.get();
}

grpc::ServerUnaryReactor* OperatorService::View(grpc::CallbackServerContext* /*context*/,
                                                const v1::ViewRequest* /*request*/,
                                                v1::RunView* answer) {
  if (const Status open = CheckOpen(open_); !open.ok()) {
    return Refuse<grpc::ServerUnaryReactor>(open);
  }
  using Call = UnaryCall<protocol::RunView, v1::RunView>;
  const auto call =
      std::make_shared<Call>(inbox_, 0, answer, [](const auto& value, v1::RunView* out) {
        ToProto(value, out);
      })->Begin();
  inbox_->Post(ViewAsked{call});
  return call.get();
}

grpc::ServerUnaryReactor* OperatorService::Operate(grpc::CallbackServerContext* /*context*/,
                                                   const v1::OperatorRequest* request,
                                                   v1::OperatorAnswer* /*answer*/) {
  if (const Status open = CheckOpen(open_); !open.ok()) {
    return Refuse<grpc::ServerUnaryReactor>(open);
  }
  auto message = protocol::FromProto(*request);
  if (!message.ok()) return Refuse<grpc::ServerUnaryReactor>(message.status());
  const auto call = std::make_shared<OperateCall>()->Begin();
  inbox_->Post(OperateAsked{std::move(*message), call});
  return call.get();
}

}  // namespace muster::server
