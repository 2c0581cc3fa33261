#include "rendezvousd/server/recovery.h"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "common/log.h"
#include "common/text.h"
#include "rendezvousd/protocol/start_options.h"
#include "rendezvousd/server/event_codec.h"

namespace muster::server {
namespace {

// What the loop must remember of an event besides the machine's state.
void Note(const core::Event& event, Recovered* out) {
  if (const auto* key = std::get_if<core::KeyCall>(&event)) {
    out->next_token = std::max(out->next_token, key->token + 1);
  } else if (const auto* barrier = std::get_if<core::BarrierCall>(&event)) {
    out->next_token = std::max(out->next_token, barrier->token + 1);
  } else if (const auto* said = std::get_if<core::AgentMessage>(&event)) {
    const auto* hello = std::get_if<protocol::Hello>(&said->message.body);
    if (hello != nullptr) out->addresses[said->message.agent] = hello->address;
  }
}

Status Replay(Recovered* out, TimePoint* last) {
  return out->journal->Replay([&](const JournalRecord& record) -> Status {
    *last = std::max(*last, record.time);
    if (out->crash_mark->IsSetAside(record.index)) {
      LogWarning(Concat("record ", record.index, " of the journal (offset ", record.offset,
                        ") killed the daemon ", kCrashesMax,
                        " times and is set aside: please report it with the journal"));
      out->set_aside.push_back(record.index);
      return OkStatus();
    }
    auto event = DecodeEvent(record.payload);
    if (!event.ok()) {
      return DataLoss(Concat("record ", record.index, " of the journal (offset ", record.offset,
                             "): ", event.status().message()));
    }
    Note(*event, out);
    out->crash_mark->Enter(record.index);
    static_cast<void>(out->machine->Step(*event, record.time));
    out->crash_mark->Leave();
    return OkStatus();
  });
}

std::string Describe(const protocol::UpwardBody& body) {
  constexpr std::string_view kNames[] = {"hello",         "ready",    "worker exited",
                                         "worker broken", "progress", "worker request",
                                         "goodbye",       "beat",     "probe answer"};
  static_assert(std::size(kNames) == std::variant_size_v<protocol::UpwardBody>);
  return std::string(kNames[body.index()]);
}

std::string Describe(const core::Event& event) {
  return std::visit(
      [](const auto& one) -> std::string {
        using T = std::decay_t<decltype(one)>;
        if constexpr (std::is_same_v<T, core::AgentMessage>) {
          return Concat(ToString(one.message.agent.key), " said ", Describe(one.message.body),
                        " (number ", one.message.number, ")");
        } else if constexpr (std::is_same_v<T, core::AgentDetached>) {
          return Concat(ToString(one.agent.key), " detached");
        } else if constexpr (std::is_same_v<T, core::AgentSuspect>) {
          return Concat(ToString(one.agent.key), " is suspect: ", one.reason);
        } else if constexpr (std::is_same_v<T, core::AgentBack>) {
          return Concat(ToString(one.agent.key), " is back");
        } else if constexpr (std::is_same_v<T, core::AgentDead>) {
          return Concat(ToString(one.agent.key), " is dead (", ToString(one.cause),
                        "): ", one.evidence);
        } else if constexpr (std::is_same_v<T, core::KeyCall>) {
          return Concat(ToString(one.request.id.agent.key), " key ", Quote(one.request.key));
        } else if constexpr (std::is_same_v<T, core::BarrierCall>) {
          return Concat(ToString(one.request.id.agent.key), " barrier ", Quote(one.request.name));
        } else if constexpr (std::is_same_v<T, core::CallExpired>) {
          return Concat("call ", one.token, " expired");
        } else if constexpr (std::is_same_v<T, core::HostMessage>) {
          return Concat("host message of kind ", one.message.index());
        } else if constexpr (std::is_same_v<T, core::DeadlinePassed>) {
          return "deadline passed";
        } else {
          static_assert(std::is_same_v<T, core::Restarted>);
          return "daemon restarted";
        }
      },
      event);
}

}  // namespace

Result<Recovered> Recover(const std::string& path, const protocol::Config& config) {
  Recovered out;
  const JournalHead head{config, BootId()};
  MUSTER_ASSIGN_OR_RETURN(out.journal, Journal::Open(path, head));
  MUSTER_ASSIGN_OR_RETURN(out.crash_mark, CrashMark::Open(path + ".crash"));
  MUSTER_RETURN_IF_ERROR(out.crash_mark->status());
  const JournalScan& scan = out.journal->scan();
  MUSTER_RETURN_IF_ERROR(protocol::Validate(scan.head.config));
  if (protocol::ToJson(scan.head.config) != protocol::ToJson(config)) {
    LogWarning("the journal holds other settings than the host gave; the journal's are kept");
  }
  out.machine = std::make_unique<core::Machine>(scan.head.config);
  out.restarted = scan.records > 0;
  if (!out.restarted) return out;
  TimePoint last{};
  MUSTER_RETURN_IF_ERROR(Replay(&out, &last));
  out.clock = MachineClock(scan.head.boot_id == head.boot_id, last, SteadyNow());
  return out;
}

Status PrintReplay(const std::string& path, const std::function<void(const std::string&)>& line) {
  // The head first: the machine needs the configuration.
  MUSTER_ASSIGN_OR_RETURN(const JournalScan scan, ReadJournal(path, nullptr));
  core::Machine machine(scan.head.config);
  TimePoint first{};
  return ReadJournal(path,
                     [&](const JournalRecord& record) -> Status {
                       if (record.index == 0) first = record.time;
                       MUSTER_ASSIGN_OR_RETURN(const auto event, DecodeEvent(record.payload));
                       line(Concat(record.index, " +", FormatDuration(record.time - first), " ",
                                   Describe(event)));
                       for (const core::Effect& effect : machine.Step(event, record.time)) {
                         if (const auto* report = std::get_if<core::Report>(&effect)) {
                           line(Concat("    ", report->record.kind, ": ", report->record.text));
                         }
                       }
                       return OkStatus();
                     })
      .status();
}

}  // namespace muster::server
