#pragma once

// Tells the lines of a scenario to a real machine in virtual time and looks at what it does. The
// model behind the names is small: agents that send what a line says, a host, callers of keys.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rendezvousd/core/machine.h"
#include "tests/scenarios/words.h"

namespace muster::scenario {

using core::Event;
using protocol::AgentId;
using protocol::AgentKey;

struct AgentModel {
  AgentId id;
  std::uint64_t number = 0;
  std::optional<protocol::Order> order;
};

class Player {
 public:
  // Throws Failure.
  void Line(std::string_view line);
  // The journal gives the same state again.
  void CheckReplay();

 private:
  struct CallModel {
    core::Token token = 0;
    std::optional<std::pair<Status, std::string>> reply;
  };

  // player.cc: the machine and its effects
  void Configure(const Words& words);
  core::Machine Replay() const;
  void Step(const Event& event);
  void Apply(const core::SendOrder& effect);
  void Apply(const core::SendAcknowledge& effect);
  void Apply(const core::Dismiss& effect);
  void Apply(const core::ReplyKey& effect);
  void Apply(const core::ReplyBarrier& effect);
  void Apply(const core::SetWishes& effect);
  void Apply(const core::Report& effect);
  void Answered(core::Token token, const Status& status, std::string value);
  AgentModel& Find(const std::string& name);
  void Send(AgentModel& agent, protocol::UpwardBody body, bool numbered = true);
  protocol::Fence FenceOf(const Words& words) const;

  // player_commands.cc
  void Command(const Words& words);
  // The nodes that a line names: all bare words for verbs that take several, else one.
  std::vector<std::string> Subjects(const Words& words) const;
  void OfAgent(const std::string& verb, const std::string& name, const Words& words);
  void Join(const std::string& name, const Words& words);
  void Hello(AgentModel& agent, const Words& words);
  void Ready(AgentModel& agent, const Words& words);
  void Exit(AgentModel& agent, const Words& words);
  void AnswerWish(const Words& words);
  void Call(const Words& words);
  void Advance(Duration duration);

  // player_expectations.cc
  void Expect(const Words& words);
  void ExpectOrder(const Words& words);
  void ExpectWish(const Words& words);
  void ExpectReply(const Words& words);
  void ExpectDismissed(const Words& words);

  protocol::Config config_;
  std::unique_ptr<core::Machine> machine_;
  TimePoint now_{std::chrono::hours(1)};
  std::vector<std::pair<Event, TimePoint>> journal_;
  std::map<AgentId, AgentModel> agents_;
  std::map<AgentKey, std::vector<AgentId>> newest_;
  std::map<std::string, CallModel> calls_;
  std::vector<protocol::Wish> wishes_;
  std::vector<protocol::EventRecord> records_;
  std::vector<std::pair<AgentId, Status>> dismissed_;
  std::optional<protocol::Upward> last_message_;
  std::uint64_t incarnations_ = 0;
  core::Token tokens_ = 0;
  bool fresh_ = true;
  bool old_ = false;
};

}  // namespace muster::scenario
