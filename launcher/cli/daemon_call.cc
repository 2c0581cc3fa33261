#include "launcher/cli/daemon_call.h"

namespace muster::cli {

Status CallDaemon(const host::OperatorAccess& access,
                  const std::function<Status(client::Client&)>& call) {
  Status last = Unavailable("no endpoint is known");
  for (const std::string& endpoint : access.endpoints) {
    client::Options options;
    options.target = endpoint;
    options.certificate = access.certificate;
    options.secret = access.secret;
    MUSTER_ASSIGN_OR_RETURN(const auto client, client::Client::Create(std::move(options)));
    last = call(*client).With(endpoint);
    if (last.code() != StatusCode::kUnavailable) return last;
  }
  return last;
}

Result<protocol::RunView> AskDaemon(const host::OperatorAccess& access) {
  protocol::RunView view;
  MUSTER_RETURN_IF_ERROR(CallDaemon(access, [&](client::Client& client) {
    auto answer = client.View(kLiveDeadline);
    if (answer.ok()) view = std::move(answer).value();
    return answer.status();
  }));
  return view;
}

}  // namespace muster::cli
