#pragma once

// Keys and barriers: calls with a deadline that are repeated with back-off while the daemon is
// away, as long as repeating is harmless. Private to rendezvousd/client.

#include <functional>
#include <memory>

#include "common/time.h"
#include "muster/v1/rendezvous.grpc.pb.h"
#include "rendezvousd/client/transport.h"
#include "rendezvousd/protocol/messages.h"

namespace muster::client {

class UnaryCalls {
 public:
  // `stub` outlives this.
  UnaryCalls(std::shared_ptr<const Transport> transport, v1::Rendezvous::Stub* stub);
  // Cancels what is under way and waits for its callbacks.
  ~UnaryCalls();
  UnaryCalls(const UnaryCalls&) = delete;
  UnaryCalls& operator=(const UnaryCalls&) = delete;

  void Key(const protocol::KeyRequest& request, Duration deadline,
           std::function<void(protocol::KeyAnswer)> done);
  void Barrier(const protocol::BarrierRequest& request, Duration deadline,
               std::function<void(Status)> done);

 private:
  struct Shared;
  const std::shared_ptr<const Transport> transport_;
  v1::Rendezvous::Stub* const stub_;
  const std::shared_ptr<Shared> shared_;  // with the calls under way; no channel in it
};

}  // namespace muster::client
