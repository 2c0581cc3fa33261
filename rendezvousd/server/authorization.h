#pragma once

// Who may call what. One place, in front of every method that there is or will be: gRPC asks it
// before any handler runs, and a path that is not known here is refused.
//
// Needs `authorization: Bearer HEX`: the join secret for Rendezvous, the operator secret for Host
// and Operator. A refusal is Unauthenticated and tells nothing about either secret.

#include <grpcpp/security/auth_metadata_processor.h>

#include <string>
#include <string_view>

#include "common/status.h"

namespace muster::server {

struct Secrets {
  std::string join;
  std::string of_operator;
};

// `authorization`: the metadata's value, empty if there is none.
Status Authorize(const Secrets& secrets, std::string_view path, std::string_view authorization);

class Authorization : public grpc::AuthMetadataProcessor {
 public:
  explicit Authorization(Secrets secrets) : secrets_(std::move(secrets)) {}
  bool IsBlocking() const override { return false; }
  grpc::Status Process(const InputMetadata& metadata, grpc::AuthContext* context,
                       OutputMetadata* consumed, OutputMetadata* response) override;

 private:
  const Secrets secrets_;
};

}  // namespace muster::server
