// A rank in a process of its own: reduces again and again until somebody kills it or a collective
// fails; then it exits with 3. It pauses after MUSTER_TEST_REDUCTIONS, where that is set.

#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <vector>

#include "trainer_runtime/comm/gloo_group.h"
#include "trainer_runtime/session/session.h"

int main() {
  using namespace muster;
  session::Options options = session::OptionsFromEnvironment();
  options.can_reform = true;
  auto session = session::Session::Connect(options);
  if (!session.ok()) return 1;
  auto round = (*session)->WaitForRound({}, std::chrono::seconds(30));
  if (!round.ok()) return 2;
  auto group = comm::CreateGlooGroup(**session, *round, {});
  if (!group.ok()) return 2;
  std::vector<float> values(1 << 18, 1.0F);
  const char* limit = std::getenv("MUSTER_TEST_REDUCTIONS");
  const std::int64_t reductions = limit != nullptr ? std::atoll(limit) : INT64_MAX;
  for (std::int64_t step = 0;; ++step) {
    if (step == reductions) pause();
    const Status status = (*group)->AllReduce(values).Wait();
    if (!status.ok()) return 3;
    if (!(*session)->Progress(session::Phase::kStep, step).ok()) return 4;
  }
}
