#include "rendezvousd/client/transport.h"

#include <arpa/inet.h>
#include <grpc/support/log.h>

#include <array>
#include <mutex>

#include "common/entropy.h"
#include "common/hex.h"
#include "common/log.h"
#include "common/text.h"
#include "rendezvousd/client/credentials.h"

namespace muster::client {
namespace {

// A view of 20,000 agents fits; answers to keys are below 2 MiB.
constexpr int kReceiveBytesMax = 16 << 20;
// One attempt to connect: long enough for a daemon that is being restarted behind its socket.
constexpr int kConnectMs = 5000;
// Notices a daemon's machine that is gone when nothing is sent; beats notice it sooner.
constexpr int kKeepaliveMs = 10'000;
constexpr int kKeepaliveTimeoutMs = 5000;

int Milliseconds(Duration duration) {
  return static_cast<int>(std::chrono::duration_cast<std::chrono::milliseconds>(duration).count());
}

grpc::ChannelArguments Arguments(const Options& options) {
  grpc::ChannelArguments arguments;
  arguments.SetSslTargetNameOverride("muster");
  arguments.SetMaxReceiveMessageSize(kReceiveBytesMax);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  // Each Client has a connection of its own, whatever else this process talks to.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  // One policy of repeating: ours, which knows which requests may be repeated.
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, Milliseconds(options.backoff_min));
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, Milliseconds(options.backoff_max));
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kConnectMs);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMs);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  return arguments;
}

// gRPC writes to stderr whatever it meets; the Status of each call says the same in our words.
void QuietGrpc() {
  static std::once_flag once;
  std::call_once(once, [] {
    gpr_set_log_function(
        [](gpr_log_func_args* line) { LogDebug(Concat("gRPC: ", line->message)); });
  });
}

bool IsAddress(int family, std::string_view text) {
  std::array<unsigned char, 16> bytes{};
  return inet_pton(family, std::string(text).c_str(), bytes.data()) == 1;
}

}  // namespace

Result<std::string> NumericTarget(std::string_view target) {
  const auto wrong = [&] {
    return InvalidArgument(Concat("the daemon's address ", Quote(target),
                                  " is not ADDRESS:PORT or [ADDRESS]:PORT with a numeric address"));
  };
  const std::size_t colon = target.rfind(':');
  if (colon == std::string_view::npos) return wrong();
  std::string_view address = target.substr(0, colon);
  const auto port = ParseInteger<std::uint16_t>("port", target.substr(colon + 1), 1);
  if (!port.ok()) return wrong();
  if (IsAddress(AF_INET, address)) return Concat("ipv4:", address, ":", *port);
  if (address.size() < 2 || address.front() != '[' || address.back() != ']') return wrong();
  address = address.substr(1, address.size() - 2);
  if (!IsAddress(AF_INET6, address)) return wrong();
  return Concat("ipv6:[", address, "]:", *port);
}

Result<std::shared_ptr<const Transport>> Transport::Create(const Options& options) {
  QuietGrpc();
  MUSTER_RETURN_IF_ERROR(NumericTarget(options.target).status());
  MUSTER_RETURN_IF_ERROR(CheckCertificate(options.certificate));
  if (const auto secret = HexDecode(options.secret); !secret.ok() || secret->empty()) {
    return InvalidArgument("the run's secret is not hex");
  }
  if (options.backoff_min <= Duration::zero() || options.backoff_max < options.backoff_min) {
    return InvalidArgument(Concat("the back-off from ", FormatDuration(options.backoff_min), " to ",
                                  FormatDuration(options.backoff_max), " is not one"));
  }
  auto transport = std::make_shared<Transport>();
  transport->target = options.target;
  transport->bearer = "Bearer " + options.secret;
  transport->backoff.initial = options.backoff_min;
  transport->backoff.maximum = options.backoff_max;
  return std::shared_ptr<const Transport>(std::move(transport));
}

std::shared_ptr<grpc::Channel> Transport::OpenChannel(const Options& options) {
  grpc::SslCredentialsOptions tls;
  tls.pem_root_certs = options.certificate;
  return grpc::CreateCustomChannel(NumericTarget(options.target).value(), grpc::SslCredentials(tls),
                                   Arguments(options));
}

void Transport::Authorize(grpc::ClientContext* context) const {
  context->AddMetadata("authorization", bearer);
}

Status Transport::FromGrpc(const grpc::Status& status) const {
  if (status.ok()) return OkStatus();
  const std::string& text = status.error_message();
  if (status.error_code() == grpc::StatusCode::UNAVAILABLE &&
      (text.find("certificate verify failed") != std::string::npos ||
       text.find("not in peer certificate") != std::string::npos)) {
    return Unauthenticated(Concat("the program that listens at ", target,
                                  " has not this run's certificate: it is not this run's daemon"));
  }
  if (status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED) {
    return DeadlineExceeded(
        Concat("the daemon at ", target, " did not answer in time (", text, ")"));
  }
  const int code = status.error_code();
  if (code < 0 || code > static_cast<int>(StatusCode::kUnauthenticated)) {
    return {StatusCode::kUnknown, Concat("the daemon at ", target, ": code ", code, ", ", text)};
  }
  return {static_cast<StatusCode>(code), Concat("the daemon at ", target, ": ", text)};
}

Random JitterRandom() {
  return Random(
      RandomSeed().value_or(static_cast<std::uint64_t>(SteadyNow().time_since_epoch().count())));
}

}  // namespace muster::client
