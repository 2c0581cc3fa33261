#include "launcher/host/host.h"

#include <pthread.h>
#include <signal.h>

#include <exception>

#include "common/log.h"
#include "common/text.h"
#include "launcher/host/run.h"
#include "launcher/host/signals.h"
#include "proto/environment.h"

namespace muster::host {
namespace {

void BlockSignals() {
  const sigset_t set = HostSignals();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  signal(SIGPIPE, SIG_IGN);
}

// What a person or the environment can correct is usage; a wall of the system is not.
int CodeOf(const Status& status) {
  switch (status.code()) {
    case StatusCode::kInvalidArgument:
    case StatusCode::kResourceExhausted:
    case StatusCode::kAlreadyExists:
    case StatusCode::kNotFound:
    case StatusCode::kPermissionDenied:
    case StatusCode::kFailedPrecondition:
    case StatusCode::kOutOfRange:
    case StatusCode::kUnimplemented:
    case StatusCode::kDataLoss:
      return exit_code::kUsage;
    case StatusCode::kOk:
    case StatusCode::kCancelled:
    case StatusCode::kUnknown:
    case StatusCode::kDeadlineExceeded:
    case StatusCode::kAborted:
    case StatusCode::kInternal:
    case StatusCode::kUnavailable:
    case StatusCode::kUnauthenticated:
      return exit_code::kCouldNotForm;
  }
  return exit_code::kCouldNotForm;
}

int RunPrepared(const LaunchInput& input, Result<Launch> launch, std::optional<SrunWay> way) {
  if (!launch.ok()) {
    LogError(launch.status().message());
    return CodeOf(launch.status());
  }
  if (launch->already_done) {
    LogInfo(Concat("run ", launch->run_name, " succeeded in attempt ", launch->past->attempt,
                   " and is not repeated; --again repeats it"));
    return exit_code::kDone;
  }
  for (const std::string& warning : launch->plan.warnings) LogWarning(warning);
  try {
    Run run(input, std::move(launch).value(), std::move(way));
    return run.Main();
  } catch (const std::exception& error) {
    LogError(Concat("broken promise of the host: ", error.what()));
    return 1;
  }
}

}  // namespace

int RunHost(const LaunchInput& input) {
  BlockSignals();
  return RunPrepared(input, Prepare(input), std::nullopt);
}

int RunHostForSrun(const LaunchInput& input, SrunWay way) {
  BlockSignals();
  Result<Launch> launch = PrepareWithPlan(input, way.plan);
  if (launch.ok() && launch->already_done) {
    // srun's tasks are about to start and cannot be kept from it.
    launch = FailedPrecondition(Concat("run ", launch->run_name, " has already succeeded in ",
                                       "attempt ", launch->past->attempt,
                                       "; give this step another name, or --muster=again"));
  }
  return RunPrepared(input, std::move(launch), std::move(way));
}

}  // namespace muster::host
