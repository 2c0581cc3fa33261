#include "launcher/network/settings.h"

#include "common/text.h"

namespace muster::network {

std::vector<Setting> NetworkSettings(const SettingFacts& facts) {
  std::vector<Setting> settings;
  const auto add = [&settings](std::string name, std::string value, std::string reason,
                               SettingKind kind = SettingKind::kSafe) {
    settings.push_back({std::move(name), std::move(value), std::move(reason), kind});
  };
  if (!facts.log_folder.empty()) {
    // Only together with a file: on the terminal they would bury the program's own output.
    add("NCCL_DEBUG", "INFO", "speaks while a communicator forms; collected on failure");
    add("NCCL_DEBUG_SUBSYS", "INIT,BOOTSTRAP,ENV,NET",
        "what decides whether a world comes together");
    add("NCCL_DEBUG_FILE", facts.log_folder + "/nccl.%h.%p.log",
        "one file a process on the local disk, not on the terminal");
    add("NCCL_DEBUG_TIMESTAMP_FORMAT", "[%F %T.%6f%z] ",
        "microseconds, so that the lines of several ranks can be put in order");
    add("NCCL_DEBUG_TIMESTAMP_LEVELS", "ALL", "stamps on every line, not on warnings alone");
  }
  if (facts.ras_port > 0) {
    add("NCCL_RAS_ADDR", Concat("localhost:", facts.ras_port),
        "NCCL's default port is shared by all jobs on a node, and the kernel picks one of them");
  }
  add("NCCL_SET_THREAD_NAME", "1", "NCCL's threads are named in stacks and in top");
  if (!facts.interface.empty()) {
    add("GLOO_SOCKET_IFNAME", facts.interface,
        "Gloo would resolve the host's name, which often gives loopback; this interface holds the "
        "node's address towards the daemon");
    if (facts.several_interfaces) {
      add("NCCL_SOCKET_IFNAME", "=" + facts.interface,
          "several interfaces could be meant; this one is proven, a faster one may be better",
          SettingKind::kAdvice);
    }
  }
  add("NCCL_IB_TIMEOUT", "22", "large InfiniBand fabrics retry longer through a switch's restart",
      SettingKind::kAdvice);
  return settings;
}

}  // namespace muster::network
