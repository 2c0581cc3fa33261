#include "launcher/agent/join_secret.h"

#include <cstdlib>
#include <cstring>

#include "proto/environment.h"

extern char** environ;

namespace muster::agent {

std::string TakeJoinSecret() {
  const std::string prefix = std::string(environment::kJoinSecret) + "=";
  std::string secret;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    if (std::strncmp(*entry, prefix.c_str(), prefix.size()) != 0) continue;
    char* value = *entry + prefix.size();
    if (secret.empty()) secret = value;
    explicit_bzero(value, std::strlen(value));
  }
  unsetenv(environment::kJoinSecret);
  return secret;
}

void Wipe(std::string* secret) {
  explicit_bzero(secret->data(), secret->size());
  secret->clear();
}

}  // namespace muster::agent
