#pragma once

// The version that agent, host and daemon of one run must share. From CMake's project version.

#include <string>

namespace muster::host {

std::string Version();

}  // namespace muster::host
