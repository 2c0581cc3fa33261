#include "launcher/host/version.h"

namespace muster::host {

std::string Version() { return MUSTER_VERSION; }

}  // namespace muster::host
