#include "launcher/cli/operate.h"
#include "launcher/config/option_table.h"

namespace muster::cli {

int StopCommand(const Words& words) {
  return Operate({config::kStop, protocol::OperatorAction::kStop,
                  "the run ends, its workers get TERM and may save until --stop-grace is over; "
                  "`muster run` ends with 123, and the same script goes on later"},
                 words);
}

}  // namespace muster::cli
