#pragma once

// What the host hands to a rendezvousd that it starts: one JSON document through an inherited
// descriptor (`rendezvousd --options-fd N`), never argv or environment, since secrets are in it.

#include <string>
#include <string_view>

#include "common/status.h"
#include "rendezvousd/protocol/config.h"

namespace muster::protocol {

struct StartOptions {
  Config config;
  // Bound and listening, inherited; the port outlives the daemon.
  int listen_fd = -1;
  std::string join_secret;      // hex, 256 bits
  std::string operator_secret;  // hex, 256 bits
  std::string certificate;      // PEM, P-256, made for this run; subject alternative name "muster"
  std::string private_key;      // PEM
  std::string journal;          // file on the batch host's local disk, folder exists
  std::string state_dir;        // shared; empty: no handover, events and status files
};

std::string ToJson(const StartOptions& options);
// Any bytes may come in; a wrong, missing or unknown field is named. The configuration inside is
// valid.
Result<StartOptions> StartOptionsFromJson(std::string_view json);

// The configuration alone, without any secret: the journal's head.
std::string ToJson(const Config& config);
Result<Config> ConfigFromJson(std::string_view json);

}  // namespace muster::protocol
