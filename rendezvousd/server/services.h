#pragma once

// The gRPC services: every handler converts and posts to the inbox, nothing else. Who calls was
// checked before (authorization.h). The inbox outlives the services.

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <memory>

#include "muster/v1/rendezvous.grpc.pb.h"
#include "rendezvousd/server/inbox.h"

namespace muster::server {

// Open until the daemon stops; then every new call is Unavailable.
using Gate = std::atomic<bool>;

class RendezvousService : public v1::Rendezvous::CallbackService {
 public:
  RendezvousService(Inbox* inbox, const Gate* open) : inbox_(inbox), open_(open) {}
  grpc::ServerBidiReactor<v1::Upward, v1::Downward>* Attend(
      grpc::CallbackServerContext* context) override;
  grpc::ServerUnaryReactor* Key(grpc::CallbackServerContext* context, const v1::KeyRequest* request,
                                v1::KeyAnswer* answer) override;
  grpc::ServerUnaryReactor* Barrier(grpc::CallbackServerContext* context,
                                    const v1::BarrierRequest* request,
                                    v1::BarrierAnswer* answer) override;

 private:
  Inbox* const inbox_;
  const Gate* const open_;
};

class HostService : public v1::Host::CallbackService {
 public:
  HostService(Inbox* inbox, const Gate* open) : inbox_(inbox), open_(open) {}
  grpc::ServerBidiReactor<v1::HostUp, v1::Wishes>* Serve(
      grpc::CallbackServerContext* context) override;

 private:
  Inbox* const inbox_;
  const Gate* const open_;
};

class OperatorService : public v1::Operator::CallbackService {
 public:
  OperatorService(Inbox* inbox, const Gate* open) : inbox_(inbox), open_(open) {}
  grpc::ServerUnaryReactor* View(grpc::CallbackServerContext* context,
                                 const v1::ViewRequest* request, v1::RunView* answer) override;
  grpc::ServerUnaryReactor* Operate(grpc::CallbackServerContext* context,
                                    const v1::OperatorRequest* request,
                                    v1::OperatorAnswer* answer) override;

 private:
  Inbox* const inbox_;
  const Gate* const open_;
};

}  // namespace muster::server
