#include "rendezvousd/client/client.h"

#include <utility>

#include "common/text.h"
#include "muster/v1/rendezvous.grpc.pb.h"
#include "rendezvousd/client/stream_session.h"
#include "rendezvousd/client/transport.h"
#include "rendezvousd/client/unary.h"
#include "rendezvousd/protocol/conversion.h"

namespace muster::client {
namespace {

using AttendStream = StreamSession<v1::Upward, v1::Downward>;
using HostStream = StreamSession<v1::HostUp, v1::Wishes>;

class AttendSessionImpl : public AttendSession {
 public:
  explicit AttendSessionImpl(std::shared_ptr<AttendStream> stream) : stream_(std::move(stream)) {
    stream_->Connect();
  }
  ~AttendSessionImpl() override { stream_->Destroy(); }
  void Send(protocol::Upward message) override {
    v1::Upward wire;
    ToProto(message, &wire);
    stream_->Send(std::move(wire));
  }
  void Close() override { stream_->Close(); }

 private:
  const std::shared_ptr<AttendStream> stream_;
};

class HostSessionImpl : public HostSession {
 public:
  explicit HostSessionImpl(std::shared_ptr<HostStream> stream) : stream_(std::move(stream)) {
    stream_->Connect();
  }
  ~HostSessionImpl() override { stream_->Destroy(); }
  void Send(protocol::HostUp message) override {
    v1::HostUp wire;
    ToProto(message, &wire);
    stream_->Send(std::move(wire));
  }
  void Close() override { stream_->Close(); }

 private:
  const std::shared_ptr<HostStream> stream_;
};

class ClientImpl : public Client {
 public:
  ClientImpl(std::shared_ptr<const Transport> transport,
             const std::shared_ptr<grpc::Channel>& channel)
      : transport_(std::move(transport)),
        rendezvous_(v1::Rendezvous::NewStub(channel)),
        host_(v1::Host::NewStub(channel)),
        operator_(v1::Operator::NewStub(channel)),
        unary_(transport_, rendezvous_.get()) {}

  std::unique_ptr<AttendSession> Attend(AttendEvents events) override {
    AttendStream::Events wire;
    wire.on_connected = std::move(events.on_connected);
    wire.on_disconnected = std::move(events.on_disconnected);
    wire.on_message = [tell = std::move(events.on_message)](const v1::Downward& in) {
      auto message = protocol::FromProto(in);
      if (message.ok()) tell(std::move(*message));
      return message.status();
    };
    auto start = [stub = rendezvous_.get()](grpc::ClientContext* context,
                                            AttendStream::Reactor* reactor) {
      stub->async()->Attend(context, reactor);
    };
    return std::make_unique<AttendSessionImpl>(
        std::make_shared<AttendStream>(transport_, std::move(start), std::move(wire)));
  }

  std::unique_ptr<HostSession> ServeHost(HostEvents events) override {
    HostStream::Events wire;
    wire.on_connected = std::move(events.on_connected);
    wire.on_disconnected = std::move(events.on_disconnected);
    wire.on_message = [tell = std::move(events.on_wishes)](const v1::Wishes& in) {
      auto wishes = protocol::FromProto(in);
      if (wishes.ok()) tell(std::move(*wishes));
      return wishes.status();
    };
    auto start = [stub = host_.get()](grpc::ClientContext* context, HostStream::Reactor* reactor) {
      stub->async()->Serve(context, reactor);
    };
    return std::make_unique<HostSessionImpl>(
        std::make_shared<HostStream>(transport_, std::move(start), std::move(wire)));
  }

  void Key(protocol::KeyRequest request, Duration deadline,
           std::function<void(protocol::KeyAnswer)> done) override {
    unary_.Key(request, deadline, std::move(done));
  }
  void Barrier(protocol::BarrierRequest request, Duration deadline,
               std::function<void(Status)> done) override {
    unary_.Barrier(request, deadline, std::move(done));
  }

  Result<protocol::RunView> View(Duration deadline) override {
    grpc::ClientContext context;
    Prepare(&context, deadline);
    v1::RunView answer;
    MUSTER_RETURN_IF_ERROR(transport_->FromGrpc(operator_->View(&context, {}, &answer)));
    return protocol::FromProto(answer);
  }
  Status Operate(protocol::OperatorRequest request, Duration deadline) override {
    grpc::ClientContext context;
    Prepare(&context, deadline);
    v1::OperatorRequest wire;
    ToProto(request, &wire);
    v1::OperatorAnswer answer;
    return transport_->FromGrpc(operator_->Operate(&context, wire, &answer));
  }

 private:
  void Prepare(grpc::ClientContext* context, Duration deadline) const {
    transport_->Authorize(context);
    context->set_deadline(std::chrono::system_clock::now() +
                          std::chrono::duration_cast<std::chrono::microseconds>(deadline));
  }

  const std::shared_ptr<const Transport> transport_;
  const std::unique_ptr<v1::Rendezvous::Stub> rendezvous_;
  const std::unique_ptr<v1::Host::Stub> host_;
  const std::unique_ptr<v1::Operator::Stub> operator_;
  UnaryCalls unary_;
};

}  // namespace

bool IsFinal(const Status& status) {
  switch (status.code()) {
    case StatusCode::kUnauthenticated:
    case StatusCode::kPermissionDenied:
    case StatusCode::kAborted:
    case StatusCode::kInvalidArgument:
    case StatusCode::kFailedPrecondition:
      return true;
    case StatusCode::kOk:
    case StatusCode::kCancelled:
    case StatusCode::kUnknown:
    case StatusCode::kDeadlineExceeded:
    case StatusCode::kNotFound:
    case StatusCode::kAlreadyExists:
    case StatusCode::kResourceExhausted:
    case StatusCode::kOutOfRange:
    case StatusCode::kUnimplemented:
    case StatusCode::kInternal:
    case StatusCode::kUnavailable:
    case StatusCode::kDataLoss:
      return false;
  }
  return false;
}

Result<std::unique_ptr<Client>> Client::Create(Options options) {
  MUSTER_ASSIGN_OR_RETURN(auto transport, Transport::Create(options));
  return std::unique_ptr<Client>(
      std::make_unique<ClientImpl>(std::move(transport), Transport::OpenChannel(options)));
}

}  // namespace muster::client
