#include "rendezvousd/core/failure_detector.h"

#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "common/check.h"

namespace muster::core {

using protocol::AgentId;
using protocol::Cause;

namespace {

// Two independent witnesses tell a dead node from a broken link of one of them; more only cost.
constexpr std::size_t kProbersMax = 2;
// A machine that answers while its agent stays silent is given this many leases before the agent
// counts as dead: a stopped or starved supervisor may come back, and its workers may still train.
constexpr int kSilentLeasesMax = 6;
// A prober that has not answered by its own limit and a beat is gone itself.
constexpr int kProberPatience = 2;

std::string Seconds(Duration duration) { return DescribeDuration(duration); }

}  // namespace

struct FailureDetector::State {
  // One agent as the detector sees it.
  struct Watched {
    std::string address;
    TimePoint last_beat;
    std::optional<TimePoint> detached_at;  // its stream is broken since
    std::optional<TimePoint> suspect_since;
    bool slurm_says_dead = false;

    // The current set of probes of its machine.
    TimePoint probed_at;
    std::set<std::uint64_t> open_probes;
    std::vector<std::string> unreachable_from;
    std::string reachable_from;  // not empty: somebody's kernel answers there
  };

  DetectorConfig config;
  std::map<AgentId, Watched> agents;
  std::set<AgentId> suspects;  // those with suspect_since
  // No lease ends before this: beats only postpone, so it is looked at again when it is reached,
  // not at every beat of ten thousand agents.
  std::optional<TimePoint> next_lease_end;
  std::map<std::uint64_t, std::pair<AgentId, AgentId>> probes;  // id -> (suspect, prober)
  std::uint64_t next_probe = 1;
  std::optional<TimePoint> last_progress;
  std::optional<TimePoint> last_time;
  std::optional<TimePoint> doubt_until;

  void Suspect(const AgentId& id, Watched* watched, std::string reason, TimePoint now,
               Detection* out) {
    if (watched->suspect_since) return;
    watched->suspect_since = now;
    suspects.insert(id);
    out->events.emplace_back(AgentSuspect{id, std::move(reason)});
    UpdateDoubt(now);
    // In doubt there is no verdict by probes; Judge sends them when it is over.
    if (!doubt_until) SendProbes(id, watched, now, out);
  }

  void Back(const AgentId& id, Watched* watched, TimePoint now, Detection* out) {
    watched->last_beat = now;
    NoteLease(now + config.lease);
    if (!watched->suspect_since) return;
    watched->suspect_since.reset();
    suspects.erase(id);
    watched->slurm_says_dead = false;
    DropProbes(watched);
    out->events.emplace_back(AgentBack{id});
    UpdateDoubt(now);
  }

  void Dead(const AgentId& id, Cause cause, std::string evidence, Detection* out) {
    Erase(agents.find(id));
    out->events.emplace_back(AgentDead{id, cause, std::move(evidence)});
  }

  std::map<AgentId, Watched>::iterator Erase(std::map<AgentId, Watched>::iterator place) {
    DropProbes(&place->second);  // a late answer must find nobody
    suspects.erase(place->first);
    return agents.erase(place);
  }

  void NoteLease(TimePoint end) {
    if (!next_lease_end || end < *next_lease_end) next_lease_end = end;
  }

  void DropProbes(Watched* watched) {
    for (std::uint64_t probe : watched->open_probes) probes.erase(probe);
    watched->open_probes.clear();
    watched->unreachable_from.clear();
    watched->reachable_from.clear();
  }

  // Asks up to two agents of other nodes, which are beyond suspicion themselves.
  void SendProbes(const AgentId& suspect, Watched* watched, TimePoint now, Detection* out) {
    DropProbes(watched);
    watched->probed_at = now;
    std::set<std::string> nodes = {suspect.key.node};
    for (const auto& [id, other] : agents) {
      if (watched->open_probes.size() == kProbersMax) break;
      if (other.suspect_since || other.detached_at || !nodes.insert(id.key.node).second) continue;
      std::uint64_t probe = next_probe++;
      probes[probe] = {suspect, id};
      watched->open_probes.insert(probe);
      out->probes.push_back({id, {probe, watched->address, config.probe_timeout}});
    }
  }

  // Many silent at once: more likely it is us.
  void UpdateDoubt(TimePoint now) {
    bool many = agents.size() >= 3 && suspects.size() >= 2 && suspects.size() * 3 > agents.size();
    if (!many) {
      doubt_until.reset();
    } else if (!doubt_until) {
      doubt_until = now + config.doubt;
    }
  }

  bool ProgressSince(TimePoint time) const { return last_progress && *last_progress > time; }

  // The end of a set of probes: all answered, or the probers were too slow.
  bool ProbesOver(const Watched& watched, TimePoint now) const {
    return watched.open_probes.empty() ||
           now >= watched.probed_at + kProberPatience * config.probe_timeout;
  }

  // Looks at one suspect; may erase it from `agents`.
  void Judge(const AgentId& id, TimePoint now, Detection* out) {
    Watched& watched = agents.at(id);
    if (!watched.suspect_since) return;
    if (watched.slurm_says_dead && !ProgressSince(*watched.suspect_since)) {
      Dead(id, Cause::kNode, "Slurm says that " + id.key.node + " is down", out);
      return;
    }
    if (doubt_until) return;  // after the doubt's time too, only Slurm's word counts
    bool grace_over = watched.detached_at && now >= *watched.detached_at + config.attend_grace;
    if (!watched.reachable_from.empty()) {
      if (grace_over) {
        Dead(id, Cause::kAgent,
             "its stream ended, it did not come back in " + Seconds(config.attend_grace) +
                 ", and its machine answers " + watched.reachable_from,
             out);
      } else if (now >= *watched.suspect_since + kSilentLeasesMax * config.lease &&
                 !ProgressSince(*watched.suspect_since)) {
        Dead(id, Cause::kAgent,
             "silent for " + Seconds(now - watched.last_beat) + " while its machine answers " +
                 watched.reachable_from,
             out);
      } else if (now >= watched.probed_at + config.lease) {
        SendProbes(id, &watched, now, out);
      }
      return;
    }
    if (!ProbesOver(watched, now)) return;
    if (watched.unreachable_from.empty()) {
      JudgeWithoutWitness(id, &watched, grace_over, now, out);
    } else if (ProgressSince(watched.probed_at - config.probe_timeout)) {
      // The world still moves, or did just before we asked: perhaps only our links are cut.
      SendProbes(id, &watched, now, out);
    } else if (!watched.detached_at || grace_over) {
      std::string witnesses = watched.unreachable_from.front();
      if (watched.unreachable_from.size() > 1) witnesses += " and " + watched.unreachable_from[1];
      Dead(id, Cause::kNode,
           "silent for " + Seconds(now - watched.last_beat) + ", and " + witnesses +
               " cannot reach its machine",
           out);
    }
  }

  void JudgeWithoutWitness(const AgentId& id, Watched* watched, bool grace_over, TimePoint now,
                           Detection* out) {
    bool alone = std::none_of(agents.begin(), agents.end(),
                              [&](const auto& item) { return item.first.key.node != id.key.node; });
    if (alone && grace_over) {
      Dead(id, Cause::kAgent,
           "its stream ended and it did not come back in " + Seconds(config.attend_grace), out);
    } else if (!alone && now >= watched->probed_at + config.probe_timeout) {
      SendProbes(id, watched, now, out);
    }
  }

  void JudgeAll(TimePoint now, Detection* out) {
    const std::vector<AgentId> all(suspects.begin(), suspects.end());  // Judge may erase
    for (const AgentId& id : all) Judge(id, now, out);
    UpdateDoubt(now);
  }
};

FailureDetector::FailureDetector(DetectorConfig config)
    : state_(std::make_unique<State>(State{.config = config,
                                           .agents = {},
                                           .suspects = {},
                                           .next_lease_end = {},
                                           .probes = {},
                                           .next_probe = 1,
                                           .last_progress = {},
                                           .last_time = {},
                                           .doubt_until = {}})) {
  MUSTER_CHECK(config.lease > config.beat, "a lease must be longer than a beat");
}
FailureDetector::~FailureDetector() = default;
FailureDetector::FailureDetector(FailureDetector&&) noexcept = default;

Detection FailureDetector::OnAttend(const AgentId& agent, const std::string& address,
                                    TimePoint now) {
  Detection out;
  // A new incarnation of the same place replaces the old one; the machine fences it.
  for (auto it = state_->agents.lower_bound(AgentId{agent.key, 0});
       it != state_->agents.end() && it->first.key == agent.key;) {
    it = it->first.incarnation == agent.incarnation ? std::next(it) : state_->Erase(it);
  }
  auto [place, added] = state_->agents.try_emplace(agent);
  place->second.address = address;
  place->second.last_beat = now;
  place->second.detached_at.reset();
  state_->Back(agent, &place->second, now, &out);
  return out;
}

void FailureDetector::Forget(const AgentId& agent) {
  auto place = state_->agents.find(agent);
  if (place == state_->agents.end()) return;
  state_->Erase(place);
}

Detection FailureDetector::OnBeat(const AgentId& agent, TimePoint now) {
  Detection out;
  auto place = state_->agents.find(agent);
  // A beat that was still under way when the stream broke does not mend it.
  if (place == state_->agents.end() || place->second.detached_at) return out;
  state_->Back(agent, &place->second, now, &out);
  return out;
}

Detection FailureDetector::OnDetached(const AgentId& agent, TimePoint now) {
  Detection out;
  auto place = state_->agents.find(agent);
  if (place == state_->agents.end() || place->second.detached_at) return out;
  place->second.detached_at = now;
  state_->Suspect(agent, &place->second, "its stream ended", now, &out);
  state_->Judge(agent, now, &out);
  state_->UpdateDoubt(now);
  return out;
}

void FailureDetector::OnProgress(TimePoint now) { state_->last_progress = now; }

Detection FailureDetector::OnProbeAnswer(const AgentId& prober, const protocol::ProbeAnswer& answer,
                                         TimePoint now) {
  Detection out;
  auto probe = state_->probes.find(answer.probe_id);
  if (probe == state_->probes.end() || probe->second.second != prober) return out;
  AgentId suspect = probe->second.first;
  State::Watched& watched = state_->agents.at(suspect);
  watched.open_probes.erase(answer.probe_id);
  state_->probes.erase(probe);
  if (answer.reachable) {
    watched.reachable_from = prober.key.node;
  } else {
    watched.unreachable_from.push_back(prober.key.node);
  }
  state_->Judge(suspect, now, &out);
  state_->UpdateDoubt(now);
  return out;
}

Detection FailureDetector::OnSlurmDead(const std::vector<std::string>& nodes, TimePoint now) {
  Detection out;
  const std::set<std::string_view> down(nodes.begin(), nodes.end());
  for (auto& [id, watched] : state_->agents) {
    watched.slurm_says_dead = down.contains(id.key.node);
  }
  state_->JudgeAll(now, &out);
  return out;
}

Detection FailureDetector::OnTime(TimePoint now) {
  Detection out;
  State& state = *state_;
  bool late = state.last_time && now - *state.last_time > 2 * state.config.beat;
  state.last_time = now;
  if (late) {
    for (auto& [id, watched] : state.agents) {
      watched.last_beat = now;
      if (watched.detached_at) watched.detached_at = now;
      if (watched.suspect_since) state.SendProbes(id, &watched, now, &out);
    }
    return out;
  }
  if (state.next_lease_end && now >= *state.next_lease_end) {
    state.next_lease_end.reset();
    for (auto& [id, watched] : state.agents) {
      if (watched.suspect_since) continue;
      const TimePoint end = watched.last_beat + state.config.lease;
      if (now >= end) {
        state.Suspect(id, &watched, "silent for " + Seconds(now - watched.last_beat), now, &out);
      } else {
        state.NoteLease(end);
      }
    }
  }
  state.JudgeAll(now, &out);
  return out;
}

std::optional<TimePoint> FailureDetector::NextDeadline() const {
  std::optional<TimePoint> next;
  auto consider = [&next](TimePoint time) {
    if (!next || time < *next) next = time;
  };
  const DetectorConfig& config = state_->config;
  if (state_->next_lease_end) consider(*state_->next_lease_end);
  for (const AgentId& id : state_->suspects) {
    const State::Watched& watched = state_->agents.at(id);
    // A suspect is looked at often: when its grace ends, and when its probes do.
    TimePoint grace_end = watched.detached_at.value_or(TimePoint::min()) + config.attend_grace;
    if (watched.detached_at && state_->last_time && grace_end > *state_->last_time) {
      consider(grace_end);
    }
    TimePoint again = std::max(watched.probed_at, state_->last_time.value_or(watched.probed_at));
    consider(again + config.probe_timeout);
  }
  return next;
}

std::optional<Duration> FailureDetector::SuspectSince(const AgentId& agent, TimePoint now) const {
  auto place = state_->agents.find(agent);
  if (place == state_->agents.end() || !place->second.suspect_since) return std::nullopt;
  return now - *place->second.suspect_since;
}

}  // namespace muster::core
