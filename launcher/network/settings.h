#pragma once

// What NCCL and Gloo are told: one table of (name, value, reason), read by the agent, `muster plan`
// and the man page.
//
// Safe settings are set where neither the user nor the site has set them; advice is only printed.
// Never here: NCCL_P2P_LEVEL, NCCL_ALGO, NCCL_PROTO, NCCL_COMM_ID (they tune, or break worlds with
// several communicators). Pure.

#include <string>
#include <vector>

namespace muster::network {

enum class SettingKind { kSafe, kAdvice };

struct Setting {
  std::string name;
  std::string value;
  std::string reason;
  SettingKind kind = SettingKind::kSafe;
};

struct SettingFacts {
  std::string interface;   // that holds the node's own address; "" if unknown
  std::string log_folder;  // on the local disk; "" if there is none
  // Of the job on this node, for NCCL's RAS service; 0 if none is held.
  int ras_port = 0;
  bool several_interfaces = false;  // more than one could be meant
};

std::vector<Setting> NetworkSettings(const SettingFacts& facts);

}  // namespace muster::network
