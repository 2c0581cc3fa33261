#include "rendezvousd/client/unary.h"

#include <grpcpp/alarm.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <set>
#include <utility>

#include "common/text.h"
#include "muster/v1/rendezvous.grpc.pb.h"
#include "rendezvousd/protocol/conversion.h"

namespace muster::client {
namespace {

// No call is meant to wait for a year; beyond it the arithmetic of clocks would overflow.
constexpr Duration kDeadlineMax = std::chrono::hours(24 * 366);

// One request, tried until it is answered, its deadline passes or the client ends.
class Pending : public std::enable_shared_from_this<Pending> {
 public:
  Pending(std::shared_ptr<const Transport> transport, Duration deadline, bool repeatable)
      : transport_(std::move(transport)),
        repeatable_(repeatable),
        deadline_(SteadyNow() + std::min(deadline, kDeadlineMax)),
        random_(JitterRandom()),
        backoff_(transport_->backoff) {}
  virtual ~Pending() = default;
  Pending(const Pending&) = delete;
  Pending& operator=(const Pending&) = delete;

  void Try() {
    const std::lock_guard lock(mutex_);
    if (cancelled_) return FinishLater(Cancelled("the client ended"));
    context_ = std::make_unique<grpc::ClientContext>();
    transport_->Authorize(context_.get());
    const auto left =
        std::chrono::duration_cast<std::chrono::microseconds>(deadline_ - SteadyNow());
    context_->set_deadline(std::chrono::system_clock::now() + left);
    Start(context_.get(),
          [self = shared_from_this()](const grpc::Status& status) { self->OnStatus(status); });
  }
  void Cancel() {
    const std::lock_guard lock(mutex_);
    cancelled_ = true;
    if (context_) context_->TryCancel();
    if (alarm_) alarm_->Cancel();
  }

  std::function<void()> on_finished;  // after done was called

 protected:
  virtual void Start(grpc::ClientContext* context, std::function<void(grpc::Status)> on_status) = 0;
  // What the daemon answered; Unavailable, too, may be tried again.
  virtual Status Answered() = 0;
  // The end: what Answered said, or the transport's failure.
  virtual void Tell(const Status& status) = 0;

 private:
  void OnStatus(const grpc::Status& grpc_status) {
    Status status = transport_->FromGrpc(grpc_status);
    if (status.ok()) status = Answered();
    {
      const std::lock_guard lock(mutex_);
      context_.reset();  // it holds the channel: let go before anybody is told
      if (status.code() == StatusCode::kUnavailable && repeatable_ && !cancelled_) {
        const Duration delay = backoff_.Next(random_);
        if (SteadyNow() + delay < deadline_) return TryAfter(delay);
      }
    }
    Finish(status);
  }
  void TryAfter(Duration delay) {
    alarm_ = std::make_unique<grpc::Alarm>();
    alarm_->Set(std::chrono::system_clock::now() +
                    std::chrono::duration_cast<std::chrono::microseconds>(delay),
                [self = shared_from_this()](bool) mutable {
                  // The alarm keeps its function, and we the alarm: leave no circle behind.
                  std::exchange(self, nullptr)->Try();
                });
  }
  // From a gRPC thread without our lock.
  void FinishLater(Status status) {
    alarm_ = std::make_unique<grpc::Alarm>();
    alarm_->Set(std::chrono::system_clock::now(),
                [self = shared_from_this(), status = std::move(status)](bool) mutable {
                  std::exchange(self, nullptr)->Finish(status);
                });
  }
  void Finish(const Status& status) {
    Tell(status);
    on_finished();
  }

  const std::shared_ptr<const Transport> transport_;
  const bool repeatable_;
  const TimePoint deadline_;
  std::mutex mutex_;
  Random random_;
  Backoff backoff_;
  bool cancelled_ = false;
  std::unique_ptr<grpc::ClientContext> context_;
  std::unique_ptr<grpc::Alarm> alarm_;
};

using Stub = v1::Rendezvous::Stub;

class PendingKey : public Pending {
 public:
  PendingKey(std::shared_ptr<const Transport> transport, Stub* stub,
             const protocol::KeyRequest& request, Duration deadline,
             std::function<void(protocol::KeyAnswer)> done)
      : Pending(std::move(transport), deadline,
                request.id.number != 0 || request.operation == protocol::KeyOperation::kGet ||
                    request.operation == protocol::KeyOperation::kWait),
        stub_(stub),
        done_(std::move(done)) {
    ToProto(request, &request_);
  }

 private:
  void Start(grpc::ClientContext* context, std::function<void(grpc::Status)> on_status) override {
    answer_.Clear();
    stub_->async()->Key(context, &request_, &answer_, std::move(on_status));
  }
  Status Answered() override {
    auto converted = protocol::FromProto(answer_);
    if (!converted.ok()) return converted.status();
    converted_ = std::move(*converted);
    return converted_.status;
  }
  void Tell(const Status& status) override {
    converted_.status = status;
    done_(std::move(converted_));
  }

  Stub* const stub_;
  const std::function<void(protocol::KeyAnswer)> done_;
  v1::KeyRequest request_;
  v1::KeyAnswer answer_;
  protocol::KeyAnswer converted_;
};

class PendingBarrier : public Pending {
 public:
  PendingBarrier(std::shared_ptr<const Transport> transport, Stub* stub,
                 const protocol::BarrierRequest& request, Duration deadline,
                 std::function<void(Status)> done)
      : Pending(std::move(transport), deadline, request.id.number != 0),
        stub_(stub),
        done_(std::move(done)) {
    ToProto(request, &request_);
  }

 private:
  void Start(grpc::ClientContext* context, std::function<void(grpc::Status)> on_status) override {
    answer_.Clear();
    stub_->async()->Barrier(context, &request_, &answer_, std::move(on_status));
  }
  Status Answered() override { return protocol::BarrierStatus(answer_); }
  void Tell(const Status& status) override { done_(status); }

  Stub* const stub_;
  const std::function<void(Status)> done_;
  v1::BarrierRequest request_;
  v1::BarrierAnswer answer_;
};

}  // namespace

struct UnaryCalls::Shared {
  void Begin(const std::shared_ptr<Shared>& self, const std::shared_ptr<Pending>& call) {
    call->on_finished = [self, weak = std::weak_ptr<Pending>(call)] {
      const std::lock_guard lock(self->mutex);
      self->calls.erase(weak.lock());
      self->idle.notify_all();
    };
    {
      const std::lock_guard lock(mutex);
      calls.insert(call);
      if (ending) call->Cancel();
    }
    call->Try();
  }

  std::mutex mutex;
  std::condition_variable idle;
  bool ending = false;
  std::set<std::shared_ptr<Pending>> calls;
};

UnaryCalls::UnaryCalls(std::shared_ptr<const Transport> transport, Stub* stub)
    : transport_(std::move(transport)), stub_(stub), shared_(std::make_shared<Shared>()) {}

UnaryCalls::~UnaryCalls() {
  std::unique_lock lock(shared_->mutex);
  shared_->ending = true;
  for (const auto& call : shared_->calls) call->Cancel();
  shared_->idle.wait(lock, [this] { return shared_->calls.empty(); });
}

void UnaryCalls::Key(const protocol::KeyRequest& request, Duration deadline,
                     std::function<void(protocol::KeyAnswer)> done) {
  shared_->Begin(
      shared_, std::make_shared<PendingKey>(transport_, stub_, request, deadline, std::move(done)));
}

void UnaryCalls::Barrier(const protocol::BarrierRequest& request, Duration deadline,
                         std::function<void(Status)> done) {
  shared_->Begin(shared_, std::make_shared<PendingBarrier>(transport_, stub_, request, deadline,
                                                           std::move(done)));
}

}  // namespace muster::client
