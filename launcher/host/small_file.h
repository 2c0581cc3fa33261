#pragma once

// Files of the state folder: written as a whole or not at all, private to the user.

#include <string>
#include <string_view>

#include "common/status.h"

namespace muster::host {

// Beside the file, flushed, then renamed over it; mode 0600.
Status WriteWhole(const std::string& path, std::string_view bytes);

}  // namespace muster::host
