#pragma once

// The secrets and the TLS identity of one run and attempt, made by the host before it starts the
// daemon: nothing is read from or written to a file, and nothing is kept.

#include <string>
#include <string_view>

#include "common/status.h"

namespace muster::client {

// 256 bits: nobody guesses one, however long the run.
inline constexpr std::size_t kSecretBytes = 32;

struct RunCredentials {
  std::string join_secret;      // hex; for agents
  std::string operator_secret;  // hex; for the host and people's commands
  std::string certificate;      // PEM, self-signed, P-256, name "muster", valid beyond any clock
  std::string private_key;      // PEM, PKCS#8
};

Result<RunCredentials> MakeRunCredentials();

// InvalidArgument if the text is not one PEM certificate.
Status CheckCertificate(std::string_view pem);

}  // namespace muster::client
