#pragma once

// One bidirectional stream that connects again by itself: the common part of AttendSession and
// HostSession. Private to rendezvousd/client.
//
// At most one gRPC call lives at a time; a Reactor holds the session until gRPC is done with it.
// Owner's callbacks come one after another (connected, messages, disconnected), never under mutex_.

#include <grpcpp/alarm.h>
#include <grpcpp/grpcpp.h>

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "common/backoff.h"
#include "common/check.h"
#include "common/status.h"
#include "rendezvousd/client/client.h"
#include "rendezvousd/client/transport.h"

namespace muster::client {

// More unsent messages than any owner keeps: the daemon does not read, a new stream is better.
inline constexpr std::size_t kUnsentMax = 8192;
// What is queued when Close is called has this long to leave.
inline constexpr Duration kFlushTime = std::chrono::seconds(1);

template <typename WireUp, typename WireDown>
class StreamSession : public std::enable_shared_from_this<StreamSession<WireUp, WireDown>> {
 public:
  using Reactor = grpc::ClientBidiReactor<WireUp, WireDown>;
  using Starter = std::function<void(grpc::ClientContext*, Reactor*)>;
  struct Events {
    std::function<void()> on_connected;
    // False: the message is not understood, the stream ends.
    std::function<Status(const WireDown&)> on_message;
    std::function<void(Status)> on_disconnected;
  };

  StreamSession(std::shared_ptr<const Transport> transport, Starter starter, Events events)
      : transport_(std::move(transport)),
        starter_(std::move(starter)),
        events_(std::move(events)),
        random_(JitterRandom()),
        backoff_(transport_->backoff) {}

  void Connect();
  void Send(WireUp message);
  // What was queued is still sent; then the stream ends with on_disconnected. Never blocks.
  void Close();
  // Closes, suppresses further callbacks and waits for the last one. Never inside a callback.
  void Destroy();

 private:
  class Call;

  void OnConnected(Call* call);
  void OnMessage(Call* call, const WireDown& message);
  void OnWritten(Call* call, bool ok);
  void OnEnding();  // the call is about to be deleted
  void OnEnded(const grpc::Status& status);
  void WriteNext();        // REQUIRES mutex_
  void FinishIfFlushed();  // REQUIRES mutex_
  void WaitThenConnect();  // REQUIRES mutex_
  // Runs an owner's callback unless the session is silenced.
  template <typename Callback>
  void Tell(const Callback& callback);

  const std::shared_ptr<const Transport> transport_;
  const Starter starter_;
  const Events events_;

  std::mutex mutex_;
  std::condition_variable idle_;
  Random random_;
  Backoff backoff_;
  Call* call_ = nullptr;  // owned by itself until OnDone
  bool busy_ = false;     // from Connect until the call's end has been told
  bool connected_ = false;
  bool writing_ = false;
  bool closing_ = false;
  bool silenced_ = false;
  bool waiting_ = false;  // for the back-off
  Status broken_;         // why we ended the stream ourselves
  std::deque<WireUp> unsent_;
  std::unique_ptr<grpc::Alarm> retry_;
  std::unique_ptr<grpc::Alarm> flush_;
  std::thread::id telling_thread_;
};

template <typename WireUp, typename WireDown>
class StreamSession<WireUp, WireDown>::Call : public Reactor {
 public:
  explicit Call(std::shared_ptr<StreamSession> session) : session_(std::move(session)) {
    session_->transport_->Authorize(&context);
  }
  void Start() {
    session_->starter_(&context, this);
    this->AddHold();  // writes are started by the owner's threads
    this->StartCall();
  }
  void OnReadInitialMetadataDone(bool ok) override {
    // A refusal comes as a call without this mark, whatever `ok` says.
    if (!ok || context.GetServerInitialMetadata().count("muster") == 0) return Over();
    session_->OnConnected(this);
    this->StartRead(&message_);
  }
  void OnReadDone(bool ok) override {
    if (!ok) return Over();
    session_->OnMessage(this, message_);
    this->StartRead(&message_);
  }
  void OnWriteDone(bool ok) override { session_->OnWritten(this, ok); }
  void OnDone(const grpc::Status& status) override {
    const auto session = session_;
    session->OnEnding();
    delete this;  // with the context, which holds the channel: before anybody is told
    session->OnEnded(status);
  }

  grpc::ClientContext context;

 private:
  void Over() {
    {
      const std::lock_guard lock(session_->mutex_);
      session_->connected_ = false;  // no write starts from now on
    }
    this->RemoveHold();
  }

  const std::shared_ptr<StreamSession> session_;
  WireDown message_;
};

template <typename WireUp, typename WireDown>
template <typename Callback>
void StreamSession<WireUp, WireDown>::Tell(const Callback& callback) {
  {
    const std::lock_guard lock(mutex_);
    if (silenced_) return;
    telling_thread_ = std::this_thread::get_id();
  }
  callback();
  const std::lock_guard lock(mutex_);
  telling_thread_ = {};
}

template <typename WireUp, typename WireDown>
void StreamSession<WireUp, WireDown>::Connect() {
  Call* call = nullptr;
  {
    const std::lock_guard lock(mutex_);
    if (closing_) return;
    call = new Call(this->shared_from_this());
    call_ = call;
    busy_ = true;
    writing_ = false;
    broken_ = OkStatus();
  }
  call->Start();
}

template <typename WireUp, typename WireDown>
void StreamSession<WireUp, WireDown>::Send(WireUp message) {
  const std::lock_guard lock(mutex_);
  if (!connected_ || closing_) return;
  if (unsent_.size() >= kUnsentMax) {
    if (broken_.ok()) broken_ = Unavailable("the daemon does not read what is sent");
    call_->context.TryCancel();
    return;
  }
  unsent_.push_back(std::move(message));
  WriteNext();
}

template <typename WireUp, typename WireDown>
void StreamSession<WireUp, WireDown>::WriteNext() {
  if (writing_ || !connected_ || unsent_.empty()) return;
  writing_ = true;
  call_->StartWrite(&unsent_.front());
}

template <typename WireUp, typename WireDown>
void StreamSession<WireUp, WireDown>::FinishIfFlushed() {
  if (closing_ && connected_ && !writing_ && unsent_.empty()) call_->StartWritesDone();
}

template <typename WireUp, typename WireDown>
void StreamSession<WireUp, WireDown>::OnConnected(Call* call) {
  {
    const std::lock_guard lock(mutex_);
    if (closing_) {
      call->context.TryCancel();
      return;
    }
    connected_ = true;
  }
  Tell([this] { events_.on_connected(); });
}

template <typename WireUp, typename WireDown>
void StreamSession<WireUp, WireDown>::OnMessage(Call* call, const WireDown& message) {
  {
    const std::lock_guard lock(mutex_);
    backoff_.Reset();
  }
  Status status;
  Tell([&] { status = events_.on_message(message); });
  if (status.ok()) return;
  const std::lock_guard lock(mutex_);
  broken_ = status;
  call->context.TryCancel();
}

template <typename WireUp, typename WireDown>
void StreamSession<WireUp, WireDown>::OnWritten(Call* call, bool ok) {
  const std::lock_guard lock(mutex_);
  if (call != call_) return;
  writing_ = false;
  if (!ok) return;  // OnReadDone(false) follows
  unsent_.pop_front();
  WriteNext();
  FinishIfFlushed();
}

template <typename WireUp, typename WireDown>
void StreamSession<WireUp, WireDown>::OnEnding() {
  const std::lock_guard lock(mutex_);
  call_ = nullptr;
  connected_ = false;
  unsent_.clear();
  if (flush_) flush_->Cancel();
}

template <typename WireUp, typename WireDown>
void StreamSession<WireUp, WireDown>::OnEnded(const grpc::Status& grpc_status) {
  Status status;
  {
    const std::lock_guard lock(mutex_);
    status = broken_;
    if (status.ok()) status = transport_->FromGrpc(grpc_status);
    if (status.ok()) status = Unavailable("the daemon ended the stream");
    if (closing_) status = Cancelled("closed");
  }
  Tell([&] { events_.on_disconnected(status); });
  const std::lock_guard lock(mutex_);
  busy_ = false;
  if (!closing_ && !IsFinal(status)) WaitThenConnect();
  idle_.notify_all();
}

template <typename WireUp, typename WireDown>
void StreamSession<WireUp, WireDown>::WaitThenConnect() {
  waiting_ = true;
  retry_ = std::make_unique<grpc::Alarm>();
  const auto when = std::chrono::system_clock::now() +
                    std::chrono::duration_cast<std::chrono::microseconds>(backoff_.Next(random_));
  retry_->Set(when, [self = this->shared_from_this()](bool) mutable {
    // The alarm keeps its function, and the session the alarm: leave no circle behind.
    const auto session = std::move(self);
    {
      const std::lock_guard lock(session->mutex_);
      session->waiting_ = false;
      session->idle_.notify_all();
    }
    session->Connect();
  });
}

template <typename WireUp, typename WireDown>
void StreamSession<WireUp, WireDown>::Close() {
  const std::lock_guard lock(mutex_);
  if (closing_) return;
  closing_ = true;
  if (retry_) retry_->Cancel();
  if (call_ == nullptr) return;
  if (!connected_) {
    call_->context.TryCancel();
    return;
  }
  FinishIfFlushed();
  flush_ = std::make_unique<grpc::Alarm>();
  const auto when = std::chrono::system_clock::now() +
                    std::chrono::duration_cast<std::chrono::microseconds>(kFlushTime);
  flush_->Set(when, [self = this->shared_from_this()](bool) mutable {
    const auto session = std::move(self);
    const std::lock_guard inner(session->mutex_);
    if (session->call_ != nullptr) session->call_->context.TryCancel();
  });
}

template <typename WireUp, typename WireDown>
void StreamSession<WireUp, WireDown>::Destroy() {
  Close();
  std::unique_lock lock(mutex_);
  silenced_ = true;
  MUSTER_CHECK(telling_thread_ != std::this_thread::get_id(),
               "a session is not destroyed inside its own callback");
  idle_.wait(lock, [this] { return !busy_ && !waiting_; });
}

}  // namespace muster::client
