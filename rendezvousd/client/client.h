#pragma once

// The one way to talk to a rendezvous daemon: one gRPC channel over TLS to a numeric target, with
// the run's certificate as the only root and the secret on every call.
//
// Callbacks come on gRPC's threads: post them to your own loop. No gRPC type shows here. Sessions
// end before their client, and neither is destroyed inside a callback (their destructors wait for
// the last one).
// Thread-safe. Used by launcher/agent (join secret) and launcher/host, launcher/cli (operator
// secret).

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/status.h"
#include "common/time.h"
#include "rendezvousd/protocol/messages.h"

namespace muster::client {

struct Options {
  std::string target;       // "10.0.0.1:4711" or "[fd00::1]:4711"; numeric only
  std::string certificate;  // PEM
  std::string secret;       // hex; join or operator
  Duration backoff_min = std::chrono::milliseconds(50);
  Duration backoff_max = std::chrono::seconds(1);
};

// What happens on an attending stream. After OnConnected the owner sends Hello, then every upward
// message that was not acknowledged. After OnDisconnected the session connects again by itself with
// back-off and jitter, unless the status is final (see IsFinal) or Close was called.
struct AttendEvents {
  std::function<void()> on_connected;
  std::function<void(protocol::Downward)> on_message;
  std::function<void(Status)> on_disconnected;
};

// True when attending again is pointless: Unauthenticated, PermissionDenied, Aborted (fenced by a
// newer incarnation), InvalidArgument, FailedPrecondition (another version, another run).
bool IsFinal(const Status& status);

class AttendSession {
 public:
  virtual ~AttendSession() = default;  // closes, waits for the last callback
  // Queued if connected, else dropped: the owner sends again after OnConnected.
  virtual void Send(protocol::Upward message) = 0;
  virtual void Close() = 0;
};

struct HostEvents {
  std::function<void()> on_connected;  // then send all facts
  std::function<void(std::vector<protocol::Wish>)> on_wishes;
  std::function<void(Status)> on_disconnected;
};

class HostSession {
 public:
  virtual ~HostSession() = default;
  virtual void Send(protocol::HostUp message) = 0;
  virtual void Close() = 0;
};

class Client {
 public:
  // InvalidArgument for a target that is not numeric, an unreadable certificate or secret.
  static Result<std::unique_ptr<Client>> Create(Options options);
  virtual ~Client() = default;

  virtual std::unique_ptr<AttendSession> Attend(AttendEvents events) = 0;
  virtual std::unique_ptr<HostSession> ServeHost(HostEvents events) = 0;

  // Every call has a deadline; the daemon answers before it with the reason. A repeated request
  // with the same RequestId is answered again, not done again.
  virtual void Key(protocol::KeyRequest request, Duration deadline,
                   std::function<void(protocol::KeyAnswer)> done) = 0;
  virtual void Barrier(protocol::BarrierRequest request, Duration deadline,
                       std::function<void(Status)> done) = 0;

  // Operator's calls; they block.
  virtual Result<protocol::RunView> View(Duration deadline) = 0;
  virtual Status Operate(protocol::OperatorRequest request, Duration deadline) = 0;
};

}  // namespace muster::client
