#include "rendezvousd/server/authorization.h"

#include "common/hex.h"

namespace muster::server {
namespace {

std::string_view View(grpc::string_ref text) { return {text.data(), text.size()}; }

std::string_view Find(const grpc::AuthMetadataProcessor::InputMetadata& metadata,
                      std::string_view key) {
  const auto found = metadata.find(grpc::string_ref(key.data(), key.size()));
  return found == metadata.end() ? std::string_view() : View(found->second);
}

}  // namespace

Status Authorize(const Secrets& secrets, std::string_view path, std::string_view authorization) {
  constexpr std::string_view kBearer = "Bearer ";
  const std::string* wanted = nullptr;
  if (path.starts_with("/muster.v1.Rendezvous/")) {
    wanted = &secrets.join;
  } else if (path.starts_with("/muster.v1.Host/") || path.starts_with("/muster.v1.Operator/")) {
    wanted = &secrets.of_operator;
  }
  if (!authorization.starts_with(kBearer)) {
    return Unauthenticated("this run's secret is needed, and none was sent");
  }
  authorization.remove_prefix(kBearer.size());
  if (wanted == nullptr || wanted->empty() || !SecretsEqual(authorization, *wanted)) {
    return Unauthenticated("the secret that was sent does not open this");
  }
  return OkStatus();
}

grpc::Status Authorization::Process(const InputMetadata& metadata, grpc::AuthContext* /*context*/,
                                    OutputMetadata* consumed, OutputMetadata* /*response*/) {
  const std::string_view value = Find(metadata, "authorization");
  const Status status = Authorize(secrets_, Find(metadata, ":path"), value);
  if (!status.ok()) {
    return {static_cast<grpc::StatusCode>(status.code()), status.message()};
  }
  consumed->emplace("authorization", std::string(value));
  return grpc::Status::OK;
}

}  // namespace muster::server
