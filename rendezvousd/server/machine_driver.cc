#include "rendezvousd/server/machine_driver.h"

#include <algorithm>
#include <utility>

#include "common/text.h"
#include "rendezvousd/server/event_codec.h"

namespace muster::server {
namespace {

core::DetectorConfig DetectorSettings(const protocol::Config& config) {
  core::DetectorConfig out;
  out.beat = config.beat;
  out.lease = config.lease;
  out.attend_grace = config.attend_grace;
  out.probe_timeout = config.probe_timeout;
  return out;
}

}  // namespace

MachineDriver::MachineDriver(Recovered recovered, StateWriter* files, TimePoint now)
    : journal_(std::move(recovered.journal)),
      crash_mark_(std::move(recovered.crash_mark)),
      machine_(std::move(recovered.machine)),
      clock_(recovered.clock),
      detector_(DetectorSettings(machine_->config())),
      files_(files),
      beat_(machine_->config().beat),
      now_(clock_.ToMachine(now)),
      last_tick_(now_),
      host_left_(now_),
      files_written_(now_ - kStatusInterval) {
  if (!recovered.restarted) return;
  events_.emplace_back(core::Restarted{});
  // Who was here has one lease to come back; who is never heard of again must become suspect.
  for (const protocol::AgentId& agent : machine_->Present()) {
    const auto address = recovered.addresses.find(agent);
    Detected(detector_.OnAttend(agent, address == recovered.addresses.end() ? "" : address->second,
                                now_));
  }
  Commit();
  for (const std::uint64_t record : recovered.set_aside) {
    protocol::EventRecord report;
    report.kind = "record set aside";
    report.text = Concat("record ", record, " of the journal killed the daemon ", kCrashesMax,
                         " times and is set aside");
    Apply(core::Report{std::move(report)});
  }
}

void MachineDriver::Handle(std::vector<Input> inputs, TimePoint now) {
  now_ = std::max(now_, clock_.ToMachine(now));
  // Leases start anew before what has waited meanwhile is judged by them.
  if (now_ - last_tick_ > 2 * beat_) Tick();
  for (Input& input : inputs) {
    std::visit([this](auto& one) { Take(std::move(one)); }, input);
  }
  Commit();
}

void MachineDriver::OnTime(TimePoint now) {
  now_ = std::max(now_, clock_.ToMachine(now));
  const auto detector_due = detector_.NextDeadline();
  if ((detector_due && *detector_due <= now_) || now_ - last_tick_ >= beat_ / 2) Tick();
  for (const core::Token token : calls_.TakeDue(now_)) Expire(token);
  const auto machine_due = machine_->NextDeadline();
  if (machine_due && *machine_due <= now_) events_.emplace_back(core::DeadlinePassed{});
  Commit();
  if (changed_ && now_ - files_written_ >= kStatusInterval) WriteFiles();
  if (const Status trouble = files_->Trouble(); !trouble.ok()) {
    files_trouble_.Say(LogLevel::kWarning, trouble.message());
  }
}

TimePoint MachineDriver::NextWake() const {
  TimePoint wake = last_tick_ + beat_ / 2;
  const auto sooner = [&wake](std::optional<TimePoint> when) {
    if (when) wake = std::min(wake, *when);
  };
  sooner(machine_->NextDeadline());
  sooner(detector_.NextDeadline());
  sooner(calls_.NextDue());
  if (changed_) sooner(files_written_ + kStatusInterval);
  return clock_.ToSteady(wake);
}

std::optional<protocol::Verdict> MachineDriver::Over(TimePoint now) const {
  auto verdict = machine_->Finished();
  if (!verdict) return std::nullopt;
  const auto wishes = machine_->CurrentWishes();
  const bool told = std::none_of(wishes.begin(), wishes.end(), [](const protocol::Wish& wish) {
    return wish.kind == protocol::WishKind::kFinish;
  });
  const bool host_absent = host_ == nullptr && clock_.ToMachine(now) - host_left_ >= kHostAbsentMax;
  if (!told && !host_absent) return std::nullopt;
  return verdict;
}

void MachineDriver::End(const Status& reason) {
  calls_.FailAll(reason);
  for (const auto& reply : std::exchange(operated_, {})) reply->Send(reason);
  for (auto& [id, attendance] : std::exchange(agents_, {})) attendance.peer->End(reason);
  names_.clear();
  if (host_ != nullptr) std::exchange(host_, nullptr)->End(reason);
  WriteFiles();
}

protocol::RunView MachineDriver::View(TimePoint now) const {
  protocol::RunView view = machine_->View(clock_.ToMachine(now));
  std::map<protocol::AgentKey, Progress> steps;  // of the newest incarnation that told one
  for (const auto& [agent, progress] : last_steps_) {
    Progress& newest = steps[agent.key];
    if (progress.fence >= newest.fence) newest = progress;
  }
  for (protocol::AgentView& agent : view.agents) {
    const auto step = steps.find(agent.key);
    if (step != steps.end()) agent.last_step = step->second.step;
  }
  return view;
}

// ---- inputs -------------------------------------------------------------------------------------

void MachineDriver::Take(AgentSaid input) {
  const protocol::AgentId& agent = input.message.agent;
  input.peer->Consumed();
  if (std::holds_alternative<protocol::Hello>(input.message.body)) {
    Attach(input.peer, input.message);
    return;
  }
  const auto name = names_.find(input.peer.get());
  if (name == names_.end()) {
    input.peer->End(InvalidArgument("an agent says hello first"));
    return;
  }
  if (name->second != agent) {
    input.peer->End(InvalidArgument(Concat("this stream is of agent ", ToString(name->second.key),
                                           ", not of ", ToString(agent.key))));
    return;
  }
  if (const auto* beat = std::get_if<protocol::Beat>(&input.message.body)) {
    TakeBeat(input.peer.get(), agent, *beat);
    return;
  }
  if (const auto* answer = std::get_if<protocol::ProbeAnswer>(&input.message.body)) {
    Detected(detector_.OnProbeAnswer(agent, *answer, now_));
    return;
  }
  if (const auto* progress = std::get_if<protocol::WorkerProgress>(&input.message.body)) {
    TakeProgress(agent, *progress);
  }
  if (std::holds_alternative<protocol::Goodbye>(input.message.body)) {
    detector_.Forget(agent);
    agents_[agent].said_goodbye = true;
  }
  events_.emplace_back(core::AgentMessage{std::move(input.message)});
}

void MachineDriver::Attach(const std::shared_ptr<AgentPeer>& peer, const protocol::Upward& hello) {
  const protocol::AgentId& agent = hello.agent;
  const auto name = names_.find(peer.get());
  if (name != names_.end() && name->second != agent) {
    peer->End(InvalidArgument("a stream is of one agent"));
    return;
  }
  // A verdict of this batch ends the stream that was, not the one that begins here.
  if (std::any_of(events_.begin(), events_.end(), [](const core::Event& event) {
        return std::holds_alternative<core::AgentDead>(event);
      })) {
    Commit();
  }
  Attendance& attendance = agents_[agent];
  if (attendance.peer != nullptr && attendance.peer != peer) {
    names_.erase(attendance.peer.get());
    attendance.peer->End(Unavailable("the same agent attends on a newer stream"));
  }
  attendance = {peer, false};
  names_[peer.get()] = agent;
  events_.emplace_back(core::AgentMessage{hello});
}

void MachineDriver::TakeBeat(AgentPeer* peer, const protocol::AgentId& agent,
                             const protocol::Beat& beat) {
  // Which round runs for this agent; the attempt alone says that none does.
  protocol::BeatAnswer answer{beat.sequence, {machine_->config().attempt, 0}};
  const auto order = machine_->CurrentOrder(agent, now_);
  if (order &&
      (order->kind == protocol::OrderKind::kRun || order->kind == protocol::OrderKind::kPrepare)) {
    answer.fence = order->fence;
  }
  peer->Send(answer);
  Detected(detector_.OnBeat(agent, now_));
}

void MachineDriver::TakeProgress(const protocol::AgentId& agent,
                                 const protocol::WorkerProgress& progress) {
  Progress& last = last_steps_[agent];
  if (progress.fence < last.fence) return;
  if (progress.fence == last.fence && progress.step <= last.step) return;
  last = {progress.fence, progress.step};
  changed_ = true;
  if (machine_->InRound(agent)) detector_.OnProgress(now_);
}

void MachineDriver::Take(AgentEnded input) {
  const auto name = names_.find(input.peer.get());
  if (name == names_.end()) return;
  const protocol::AgentId agent = name->second;
  names_.erase(name);
  const auto attendance = agents_.find(agent);
  if (attendance == agents_.end() || attendance->second.peer != input.peer) return;
  const bool said_goodbye = attendance->second.said_goodbye;
  agents_.erase(attendance);
  if (said_goodbye) return;
  events_.emplace_back(core::AgentDetached{agent});
  Detected(detector_.OnDetached(agent, now_));
}

void MachineDriver::Take(HostAttached input) {
  if (host_ != nullptr) host_->End(Aborted("another host process attends for this run"));
  host_ = std::move(input.peer);
  host_->Send(machine_->CurrentWishes());
}

void MachineDriver::Take(HostSaid input) {
  input.peer->Consumed();
  if (input.peer != host_) return;
  std::optional<std::vector<std::string>> dead;
  if (const auto* facts = std::get_if<protocol::HostFacts>(&input.message)) {
    dead = facts->dead_nodes;
  }
  events_.emplace_back(core::HostMessage{std::move(input.message)});
  if (dead) Detected(detector_.OnSlurmDead(*dead, now_));
}

void MachineDriver::Take(HostEnded input) {
  if (input.peer != host_) return;
  host_ = nullptr;
  host_left_ = now_;
}

void MachineDriver::Take(KeyAsked input) {
  calls_.Open(input.token, std::move(input.reply), clock_.ToMachine(input.answer_by));
  events_.emplace_back(core::KeyCall{input.token, std::move(input.request)});
}

void MachineDriver::Take(BarrierAsked input) {
  calls_.Open(input.token, std::move(input.reply), clock_.ToMachine(input.answer_by));
  events_.emplace_back(core::BarrierCall{input.token, std::move(input.request)});
}

void MachineDriver::Take(CallGone input) {
  if (calls_.IsOpen(input.token)) Expire(input.token);
}

void MachineDriver::Expire(core::Token token) { events_.emplace_back(core::CallExpired{token}); }

void MachineDriver::Take(OperateAsked input) {
  events_.emplace_back(core::HostMessage{std::move(input.request)});
  operated_.push_back(std::move(input.reply));
}

void MachineDriver::Take(ViewAsked input) {
  Commit();  // what was posted before is seen
  input.reply->Send(View(clock_.ToSteady(now_)));
}

void MachineDriver::Take(StopAsked input) { stop_reason_ = std::move(input.reason); }

void MachineDriver::Tick() {
  last_tick_ = now_;
  Detected(detector_.OnTime(now_));
}

void MachineDriver::Detected(core::Detection detection) {
  std::move(detection.events.begin(), detection.events.end(), std::back_inserter(events_));
  for (core::SendProbe& probe : detection.probes) {
    if (AgentPeer* peer = Find(probe.prober)) peer->Send(std::move(probe.probe));
  }
}

// ---- effects ------------------------------------------------------------------------------------

void MachineDriver::Commit() {
  while (!events_.empty()) {  // a step may make the detector say something
    const std::vector<core::Event> events = std::exchange(events_, {});
    std::vector<std::optional<std::uint64_t>> records;
    records.reserve(events.size());
    for (const core::Event& event : events) {
      records.push_back(machine_->MustJournal(event)
                            ? std::optional(journal_->Add(now_, EncodeEvent(event)))
                            : std::nullopt);
    }
    if (const Status written = journal_->Commit(); !written.ok()) {
      LogError(Concat(written.message(),
                      ": the run goes on, but its daemon cannot be restarted in this attempt"));
    }
    for (std::size_t i = 0; i < events.size(); ++i) Step(events[i], records[i]);
    changed_ = true;
  }
  for (const auto& reply : std::exchange(operated_, {})) reply->Send(OkStatus());
}

void MachineDriver::Step(const core::Event& event, std::optional<std::uint64_t> record) {
  if (record) crash_mark_->Enter(*record);
  const core::Effects effects = machine_->Step(event, now_);
  if (record) crash_mark_->Leave();
  for (const core::Effect& effect : effects) {
    std::visit([this](const auto& one) { Apply(one); }, effect);
  }
  AfterStep(event, effects);
}

void MachineDriver::AfterStep(const core::Event& event, const core::Effects& effects) {
  if (const auto* expired = std::get_if<core::CallExpired>(&event)) {
    calls_.Fail(expired->token, DeadlineExceeded("the caller's deadline passed"));
    return;
  }
  const auto* said = std::get_if<core::AgentMessage>(&event);
  if (said == nullptr) return;
  const auto* hello = std::get_if<protocol::Hello>(&said->message.body);
  if (hello == nullptr) return;
  const protocol::AgentId& agent = said->message.agent;
  Admitted(agent, hello->address);
  // Whoever attends is told its state, once.
  const bool told = std::any_of(effects.begin(), effects.end(), [&](const core::Effect& effect) {
    const auto* order = std::get_if<core::SendOrder>(&effect);
    return order != nullptr && order->agent == agent;
  });
  AgentPeer* peer = Find(agent);
  if (told || peer == nullptr) return;
  if (auto order = machine_->CurrentOrder(agent, now_)) peer->Send(std::move(*order));
}

// Only now: a hello that the machine refuses must not make the detector forget the agent that has
// the place.
void MachineDriver::Admitted(const protocol::AgentId& agent, const std::string& address) {
  if (!machine_->CurrentOrder(agent, now_)) return;
  const auto attendance = agents_.find(agent);
  if (attendance != agents_.end() && attendance->second.said_goodbye) return;
  Detected(detector_.OnAttend(agent, address, now_));
  // Its stream ended in the same batch.
  if (attendance == agents_.end()) Detected(detector_.OnDetached(agent, now_));
}

AgentPeer* MachineDriver::Find(const protocol::AgentId& agent) const {
  const auto attendance = agents_.find(agent);
  return attendance == agents_.end() ? nullptr : attendance->second.peer.get();
}

void MachineDriver::Apply(const core::SendOrder& effect) {
  if (AgentPeer* peer = Find(effect.agent)) peer->Send(effect.order);
}

void MachineDriver::Apply(const core::SendAcknowledge& effect) {
  if (AgentPeer* peer = Find(effect.agent)) peer->Send(protocol::Acknowledge{effect.number});
}

void MachineDriver::Apply(const core::Dismiss& effect) {
  detector_.Forget(effect.agent);
  const auto attendance = agents_.find(effect.agent);
  if (attendance == agents_.end()) return;
  names_.erase(attendance->second.peer.get());
  attendance->second.peer->End(effect.reason);
  agents_.erase(attendance);
}

void MachineDriver::Apply(const core::ReplyKey& effect) {
  calls_.Answer(effect.token, effect.answer);
}

void MachineDriver::Apply(const core::ReplyBarrier& effect) {
  calls_.Answer(effect.token, effect.status);
}

void MachineDriver::Apply(const core::SetWishes& effect) {
  if (host_ != nullptr) host_->Send(effect.wishes);
}

void MachineDriver::Apply(const core::Report& effect) {
  files_->AppendEvent(effect.record);
  LogDebug(Concat(effect.record.kind, ": ", effect.record.text));
}

void MachineDriver::WriteFiles() {
  const protocol::RunView view = View(clock_.ToSteady(now_));
  files_->WriteStatus(view);
  const bool decided = view.verdict.outcome != protocol::Outcome::kNone;
  if (view.fence != handed_over_ || (decided && !verdict_written_)) {
    handed_over_ = view.fence;
    files_->WriteHandover(view);
  }
  if (decided && !verdict_written_) {
    verdict_written_ = true;
    files_->WriteVerdict(view);
  }
  changed_ = false;
  files_written_ = now_;
}

}  // namespace muster::server
