#include "launcher/cli/operate.h"
#include "launcher/config/option_table.h"

namespace muster::cli {

int CancelCommand(const Words& words) {
  return Operate({config::kCancel, protocol::OperatorAction::kCancel,
                  "the run ends, its workers get TERM, and KILL after --stop-grace; `muster run` "
                  "ends with 123"},
                 words);
}

}  // namespace muster::cli
