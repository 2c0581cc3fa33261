#pragma once

// One bidirectional stream on the server's side, of any two messages. It owns itself until gRPC is
// done with it. Reading stops while more messages wait for the loop than kUnhandledMax, so a far
// end that floods fills its own connection, not our memory.
//
// Derived classes say what a message is; all methods here are thread-safe.

#include <grpcpp/grpcpp.h>

#include <deque>
#include <memory>
#include <mutex>
#include <utility>

#include "common/status.h"

namespace muster::server {

inline constexpr int kUnhandledMax = 256;
// More than any far end can have to read: it does not read at all.
inline constexpr std::size_t kUnsentMax = 4096;

template <typename In, typename Out>
class ServerStream : public grpc::ServerBidiReactor<In, Out>,
                     public std::enable_shared_from_this<ServerStream<In, Out>> {
 public:
  // REQUIRES: owned by a shared_ptr. The far end sees the mark and knows that it is admitted.
  void Start(grpc::CallbackServerContext* context) {
    self_ = this->shared_from_this();
    context->AddInitialMetadata("muster", "1");
    this->StartSendInitialMetadata();
    this->StartRead(&in_);
  }

  void OnReadDone(bool ok) final {
    if (!ok) return EndStream(OkStatus());
    const Status status = OnMessage(in_);
    if (!status.ok()) return EndStream(status);
    const std::lock_guard lock(mutex_);
    if (ended_) return;
    if (++unhandled_ >= kUnhandledMax) {
      parked_ = true;
    } else {
      this->StartRead(&in_);
    }
  }
  void OnWriteDone(bool ok) final {
    const std::lock_guard lock(mutex_);
    writing_ = false;
    if (ok) {
      unsent_.pop_front();
    } else {
      unsent_.clear();
    }
    Proceed();
  }
  void OnCancel() final { EndStream(Cancelled("the far end is gone")); }
  void OnDone() final {
    OnEnded();
    self_.reset();  // perhaps the last owner
  }

 protected:
  // On a gRPC thread, one at a time. Not OK ends the stream.
  virtual Status OnMessage(const In& message) = 0;
  // After the last message.
  virtual void OnEnded() = 0;
  // True if `queued` need not be sent any more when `newer` follows.
  virtual bool Supersedes(const Out& newer, const Out& queued) const = 0;

  void SendOut(Out message) {
    const std::lock_guard lock(mutex_);
    if (ended_) return;
    if (unsent_.size() >= kUnsentMax) {
      EndLocked(ResourceExhausted("messages are not read"));
      return;
    }
    const std::size_t first = writing_ ? 1 : 0;  // the front is being written
    for (std::size_t i = first; i < unsent_.size(); ++i) {
      if (!Supersedes(message, unsent_[i])) continue;
      unsent_[i] = std::move(message);  // erasing would move the one that is being written
      return;
    }
    unsent_.push_back(std::move(message));
    Proceed();
  }
  void EndStream(const Status& status) {
    const std::lock_guard lock(mutex_);
    EndLocked(status);
  }
  void HandledOne() {
    const std::lock_guard lock(mutex_);
    --unhandled_;
    if (!parked_ || ended_) return;
    parked_ = false;
    this->StartRead(&in_);
  }

 private:
  void EndLocked(const Status& status) {
    if (ended_) return;
    ended_ = true;
    end_ = grpc::Status(static_cast<grpc::StatusCode>(status.code()), status.message());
    Proceed();
  }
  void Proceed() {
    if (writing_ || finished_) return;
    if (!unsent_.empty()) {
      writing_ = true;
      this->StartWrite(&unsent_.front());
    } else if (ended_) {
      finished_ = true;
      this->Finish(end_);
    }
  }

  std::shared_ptr<ServerStream> self_;
  In in_;
  std::mutex mutex_;
  std::deque<Out> unsent_;  // grows and shrinks at its ends only: gRPC reads the front
  bool writing_ = false;
  bool ended_ = false;
  bool finished_ = false;
  bool parked_ = false;
  int unhandled_ = 0;
  grpc::Status end_;
};

}  // namespace muster::server
