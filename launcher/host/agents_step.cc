#include "launcher/host/agents_step.h"

#include <signal.h>

#include <algorithm>
#include <utility>

#include "common/log.h"
#include "common/text.h"
#include "proto/environment.h"

namespace muster::host {
namespace {

// A step that was killed comes back at once; one that cannot live is given up within a minute.
constexpr std::size_t kTries = 4;
constexpr Duration kTriesWithin = std::chrono::seconds(60);
constexpr Duration kFirstPause = std::chrono::milliseconds(500);
// One that could not form after this long has tried to reach the daemon for all its time; sooner,
// its node was still held by an agent that ends.
constexpr Duration kTriedInVain = std::chrono::seconds(5);

}  // namespace

struct AgentsStep::Slot {
  StepProcess process;
  Child child;
  std::deque<TimePoint> ends;
  TimePoint started{};
  agent::EventLoop::Id pause = 0;
  bool added = false;  // not to be started again
  bool over = false;   // and will not be
};

AgentsStep::AgentsStep(agent::EventLoop* loop, std::vector<StepProcess> processes, Events events)
    : loop_(loop), events_(std::move(events)) {
  for (StepProcess& process : processes) {
    slots_.push_back(std::make_unique<Slot>());
    slots_.back()->process = std::move(process);
  }
}

AgentsStep::~AgentsStep() {
  for (const auto& slot : slots_) {
    if (slot->pause != 0) loop_->CancelTimer(slot->pause);
  }
  if (timer_ != 0) loop_->CancelTimer(timer_);
}

Status AgentsStep::Start() {
  for (const auto& slot : slots_) MUSTER_RETURN_IF_ERROR(StartSlot(slot.get()));
  return OkStatus();
}

Status AgentsStep::Add(StepProcess process) {
  if (closing_) return FailedPrecondition("the agents are being ended");
  slots_.push_back(std::make_unique<Slot>());
  Slot* slot = slots_.back().get();
  slot->process = std::move(process);
  slot->added = true;
  Status status = StartSlot(slot);
  if (!status.ok()) slots_.pop_back();
  return status;
}

Status AgentsStep::StartSlot(Slot* slot) {
  slot->started = SteadyNow();
  return slot->child
      .Start(loop_, slot->process.request,
             [this, slot](int wait_status) { OnExit(slot, wait_status); })
      .With(slot->process.what);
}

void AgentsStep::OnExit(Slot* slot, int wait_status) {
  if (closing_) {
    slot->over = true;
    MaybeClosed();
    return;
  }
  const std::string how =
      Concat(slot->process.what, " ended with ", DescribeWaitStatus(wait_status));
  const TimePoint now = SteadyNow();
  slot->ends.push_back(now);
  while (now - slot->ends.front() > kTriesWithin) slot->ends.pop_front();
  const int code = ShellCode(wait_status);
  const bool in_vain = code == exit_code::kCouldNotForm && now - slot->started >= kTriedInVain;
  const bool repeated = code != 0 && code != exit_code::kUsage && !in_vain && !slot->added;
  if (!repeated || slot->ends.size() >= kTries) {
    slot->over = true;
    events_.ended(slot->process, how);
    return;
  }
  const Duration pause = kFirstPause * (1 << (slot->ends.size() - 1));
  LogWarning(Concat(how, "; it starts again in ", DescribeDuration(pause)));
  slot->pause = loop_->After(pause, [this, slot] {
    slot->pause = 0;
    Restart(slot);
  });
}

void AgentsStep::Restart(Slot* slot) {
  if (closing_) return;
  ++restarts_;
  if (events_.before_restart) events_.before_restart(&slot->process);
  const Status status = StartSlot(slot);
  if (status.ok()) return;
  slot->over = true;
  events_.ended(slot->process, status.message());
}

void AgentsStep::Close(Duration patience, Duration grace) {
  if (closing_) return;
  closing_ = true;
  for (const auto& slot : slots_) {
    if (slot->pause != 0) loop_->CancelTimer(std::exchange(slot->pause, 0));
  }
  timer_ = loop_->After(patience, [this, grace] {
    Signal(SIGTERM);
    timer_ = loop_->After(grace, [this] { Signal(SIGKILL); });
  });
  loop_->Post([this] { MaybeClosed(); });
}

void AgentsStep::Signal(int number) {
  if (number == SIGKILL) killed_ = true;
  for (const auto& slot : slots_) slot->child.Signal(number);
}

bool AgentsStep::AnyLeft() const {
  return std::ranges::any_of(
      slots_, [](const auto& slot) { return slot->child.running() || slot->pause != 0; });
}

void AgentsStep::MaybeClosed() {
  if (!closing_ || told_ || AnyLeft()) return;
  told_ = true;
  if (timer_ != 0) loop_->CancelTimer(std::exchange(timer_, 0));
  events_.closed();
}

}  // namespace muster::host
