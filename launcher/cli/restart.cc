#include "launcher/cli/operate.h"
#include "launcher/config/option_table.h"

namespace muster::cli {

int RestartCommand(const Words& words) {
  return Operate({config::kRestart, protocol::OperatorAction::kRestart,
                  "the round ends and a new one begins with the nodes that are there; it counts "
                  "for no budget"},
                 words);
}

}  // namespace muster::cli
