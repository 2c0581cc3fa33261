#pragma once

// What a failed Slurm tool said, as a Status. Pure; any bytes may come in.

#include <string_view>

#include "common/status.h"

namespace muster::slurm {

// By the sentences of slurm_errno.c that the tools print on stderr; Unknown for all others. The
// message quotes what was printed.
Status StatusFromTool(std::string_view tool, int exit_code, std::string_view error_output);

}  // namespace muster::slurm
