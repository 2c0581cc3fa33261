#include "trainer_runtime/muster_train/stop_wish.h"

#include <csignal>

#include "common/text.h"

namespace muster::train_program {
namespace {

volatile std::sig_atomic_t caught = 0;

void OnSignal(int number) { caught = number; }

}  // namespace

void CatchStopSignals() {
  struct sigaction action {};
  action.sa_handler = OnSignal;
  // It stays: Slurm's TERM and the agent's come within milliseconds, and the second must not end
  // what the first has asked to save. Who does not want to wait has KILL.
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(SIGTERM, &action, nullptr);
  sigaction(SIGUSR1, &action, nullptr);
}

int StopSignal() { return caught; }

std::optional<std::string> WantsStop(const session::Session& session, std::uint64_t step) {
  if (caught != 0) return Concat("signal ", static_cast<int>(caught));
  const auto order = session.stop_order();
  if (order && static_cast<std::int64_t>(step) >= order->step) return order->reason;
  return std::nullopt;
}

}  // namespace muster::train_program
