#pragma once

// What sessions and calls share: the channel, the secret, the mapping of gRPC's errors. Private to
// rendezvousd/client.

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>
#include <string_view>

#include "common/backoff.h"
#include "common/random.h"
#include "common/status.h"
#include "rendezvousd/client/client.h"

namespace muster::client {

// "10.0.0.1:4711" as "ipv4:10.0.0.1:4711", "[fd00::1]:4711" as "ipv6:[fd00::1]:4711": gRPC then
// looks nothing up. InvalidArgument for anything else.
Result<std::string> NumericTarget(std::string_view target);

// Immutable after Create; thread-safe.
struct Transport {
  std::string target;
  std::string bearer;  // the value of the authorization metadata
  BackoffPolicy backoff;
  std::shared_ptr<grpc::Channel> channel;

  static Result<std::shared_ptr<const Transport>> Create(const Options& options);
  void Authorize(grpc::ClientContext* context) const;
  // gRPC's status as ours; a daemon with another certificate is Unauthenticated, not Unavailable.
  Status FromGrpc(const grpc::Status& status) const;
};

// A generator for jitter; a weak seed is no secret lost.
Random JitterRandom();

}  // namespace muster::client
