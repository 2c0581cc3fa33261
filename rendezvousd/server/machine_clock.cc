#include "rendezvousd/server/machine_clock.h"

#include <fstream>

namespace muster::server {

std::string BootId() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  return file >> id ? id : "unknown";
}

}  // namespace muster::server
