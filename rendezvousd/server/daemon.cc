#include "rendezvousd/server/daemon.h"

#include <grpc/support/log.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/server_posix.h>

#include <mutex>
#include <utility>

#include "common/log.h"
#include "common/text.h"
#include "rendezvousd/core/limits.h"
#include "rendezvousd/server/acceptor.h"
#include "rendezvousd/server/authorization.h"
#include "rendezvousd/server/exit_code.h"
#include "rendezvousd/server/machine_driver.h"
#include "rendezvousd/server/recovery.h"
#include "rendezvousd/server/services.h"
#include "rendezvousd/server/state_writer.h"

namespace muster::server {
namespace {

// Streams that do not end by themselves are cut after this.
constexpr auto kShutdownTime = std::chrono::seconds(2);
// A stranger who connects and says nothing keeps a descriptor this long.
constexpr int kHandshakeMs = 10'000;
// A connection without a call is a stranger's, or a command's that was forgotten.
constexpr int kIdleConnectionMs = 60'000;
// Clears away connections of machines that are gone; liveness is told by beats, much sooner.
constexpr int kKeepaliveMs = 30'000;
constexpr int kKeepaliveTimeoutMs = 10'000;
// Clients ping every ten seconds.
constexpr int kPingIntervalMinMs = 5'000;

using External = grpc::experimental::ExternalConnectionAcceptor;

// The gRPC server on a socket that we accept from ourselves.
class Front {
 public:
  Front(const protocol::StartOptions& options, Inbox* inbox)
      : rendezvous_(inbox, &open_), host_(inbox, &open_), operator_(inbox, &open_) {
    grpc::SslServerCredentialsOptions tls;
    tls.pem_key_cert_pairs.push_back({options.private_key, options.certificate});
    const auto credentials = grpc::SslServerCredentials(tls);
    credentials->SetAuthMetadataProcessor(
        std::make_shared<Authorization>(Secrets{options.join_secret, options.operator_secret}));
    grpc::ServerBuilder builder;
    builder.SetMaxReceiveMessageSize(core::limits::kMessageBytesMax);
    builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
    builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, kHandshakeMs);
    builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, kIdleConnectionMs);
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMs);
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
    builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                               kPingIntervalMinMs);
    builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PING_STRIKES, 0);
    builder.RegisterService(&rendezvous_);
    builder.RegisterService(&host_);
    builder.RegisterService(&operator_);
    connections_ = builder.experimental().AddExternalConnectionAcceptor(
        grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD, credentials);
    server_ = builder.BuildAndStart();
  }

  Status Accept(int listen_fd, int descriptor_limit) {
    if (server_ == nullptr) {
      return InvalidArgument("gRPC did not start: the certificate and key of the run do not fit");
    }
    MUSTER_ASSIGN_OR_RETURN(acceptor_, Acceptor::Start(listen_fd, descriptor_limit, [this](int fd) {
                              External::NewConnectionParameters connection;
                              connection.fd = fd;
                              connections_->HandleNewConnection(&connection);
                            }));
    return OkStatus();
  }

  // New calls are refused; those that are there go on.
  void CloseGate() {
    acceptor_.reset();
    open_ = false;
  }
  void Shutdown() {
    CloseGate();
    if (server_ == nullptr) return;
    server_->Shutdown(std::chrono::system_clock::now() + kShutdownTime);
    server_->Wait();
  }

 private:
  Gate open_{true};
  RendezvousService rendezvous_;
  HostService host_;
  OperatorService operator_;
  std::unique_ptr<External> connections_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<Acceptor> acceptor_;
};

// gRPC tells stderr about every stranger; people are told what concerns them by us.
void QuietGrpc() {
  static std::once_flag once;
  std::call_once(once, [] {
    gpr_set_log_function(
        [](gpr_log_func_args* line) { LogDebug(Concat("gRPC: ", line->message)); });
  });
}

std::uint64_t ExpectedAgents(const protocol::Config& config) {
  // `nodes` may be shorter than min_nodes: srun --muster knows a count only.
  std::uint64_t agents = 0;
  for (std::size_t i = 0; i < config.min_nodes; ++i) {
    agents += i < config.nodes.size() ? protocol::AgentsOnNode(config, i) : 1;
  }
  return agents;
}

int Fail(int code, const Status& status) {
  LogError(Concat("rendezvousd: ", status.message()));
  return code;
}

int CodeOf(const Status& journal_status) {
  switch (journal_status.code()) {
    case StatusCode::kDataLoss:
    case StatusCode::kFailedPrecondition:
    case StatusCode::kInvalidArgument:
    case StatusCode::kResourceExhausted:
      return exit_code::kJournal;
    case StatusCode::kOk:
    case StatusCode::kCancelled:
    case StatusCode::kUnknown:
    case StatusCode::kDeadlineExceeded:
    case StatusCode::kNotFound:
    case StatusCode::kAlreadyExists:
    case StatusCode::kPermissionDenied:
    case StatusCode::kAborted:
    case StatusCode::kOutOfRange:
    case StatusCode::kUnimplemented:
    case StatusCode::kInternal:
    case StatusCode::kUnavailable:
    case StatusCode::kUnauthenticated:
      return exit_code::kSystem;
  }
  return exit_code::kInternal;
}

// Runs the loop to its end; gives the exit code.
int Loop(Inbox* inbox, MachineDriver* driver) {
  while (true) {
    driver->Handle(inbox->TakeAll(driver->NextWake()), SteadyNow());
    driver->OnTime(SteadyNow());
    if (const auto verdict = driver->Over(SteadyNow())) {
      LogDebug(Concat("rendezvousd: the run is over: ", ToString(verdict->outcome)));
      return exit_code::kDone;
    }
    if (driver->stop_reason()) {
      LogWarning(Concat("rendezvousd stops: ", *driver->stop_reason()));
      return exit_code::kStopped;
    }
  }
}

}  // namespace

void StopHandle::Stop(std::string reason) { inbox_.Post(StopAsked{std::move(reason)}); }

int RunDaemon(const protocol::StartOptions& options, StopHandle* stop) {
  QuietGrpc();
  Inbox* inbox = &stop->inbox_;
  const auto descriptors = RaiseDescriptorLimit(ExpectedAgents(options.config));
  if (!descriptors.ok()) return Fail(exit_code::kSystem, descriptors.status());
  auto recovered = Recover(options.journal, options.config);
  if (!recovered.ok()) return Fail(CodeOf(recovered.status()), recovered.status());
  if (recovered->restarted) {
    LogInfo(Concat("rendezvousd goes on from its journal (", recovered->journal->scan().records,
                   " records)"));
  }
  inbox->StartTokensAt(recovered->next_token);
  StateWriter files(options.state_dir, options.config.attempt);
  MachineDriver driver(std::move(*recovered), &files, SteadyNow());
  Front front(options, inbox);
  if (const Status accepting = front.Accept(options.listen_fd, *descriptors); !accepting.ok()) {
    return Fail(exit_code::kSystem, accepting);
  }
  const int code = Loop(inbox, &driver);
  front.CloseGate();
  driver.Handle(inbox->TakeAll(SteadyNow()), SteadyNow());  // who came in before the gate closed
  driver.End(code == exit_code::kDone ? Unavailable("the run is over")
                                      : Unavailable("the daemon stops; ask the next one"));
  front.Shutdown();
  // Calls that slipped in meanwhile were cut by the shutdown.
  if (!files.Flush(kWriteDeadline)) {
    if (const Status trouble = files.Trouble(); !trouble.ok()) {
      LogWarning(Concat("the state folder misses the end of this attempt: ", trouble.message()));
    }
  }
  return code;
}

}  // namespace muster::server
