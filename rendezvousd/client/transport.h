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

// Immutable after Create; thread-safe. The channel is not in it: sessions and calls live on for a
// moment on gRPC's own threads, and a grpc::Channel that ends on one of them joins itself (gRPC
// 1.51). Only Client owns the channel.
struct Transport {
  std::string target;
  std::string bearer;  // the value of the authorization metadata
  BackoffPolicy backoff;

  static Result<std::shared_ptr<const Transport>> Create(const Options& options);
  // REQUIRES: Create was content with the options.
  static std::shared_ptr<grpc::Channel> OpenChannel(const Options& options);
  void Authorize(grpc::ClientContext* context) const;
  // gRPC's status as ours; a daemon with another certificate is Unauthenticated, not Unavailable.
  Status FromGrpc(const grpc::Status& status) const;
};

// A generator for jitter; a weak seed is no secret lost.
Random JitterRandom();

}  // namespace muster::client
