#include "tests/scenarios/player.h"

#include <utility>

#include "common/text.h"

namespace muster::scenario {

void Player::Line(std::string_view line) {
  const Words words = Read(line);
  if (words.bare.empty()) return;
  if (words.bare[0] == "config") return Configure(words);
  if (!machine_) Fail("the first line is config");
  if (words.bare[0] == "expect") {
    fresh_ = false;
    return Expect(words);
  }
  if (!fresh_) {
    records_.clear();
    dismissed_.clear();
    fresh_ = true;
  }
  Command(words);
}

void Player::CheckReplay() {
  core::Machine other = Replay();
  for (const auto& [id, agent] : agents_) {
    const auto a = machine_->CurrentOrder(id, now_);
    const auto b = other.CurrentOrder(id, now_);
    if (a.has_value() != b.has_value() || (a && (a->kind != b->kind || a->fence != b->fence))) {
      Fail(Concat("replay gives another order to ", ToString(id.key)));
    }
  }
  Equal(other.View(now_).waiting_for, machine_->View(now_).waiting_for, "waiting after replay");
  Equal(other.View(now_).phase, machine_->View(now_).phase, "phase after replay");
}

void Player::Configure(const Words& words) {
  config_.run_id = "run1";
  config_.version = "1";
  config_.nodes = List(words.Get("nodes"));
  config_.min_nodes = words.Number<std::uint32_t>("min", 1);
  config_.max_nodes = words.Number<std::uint32_t>("max", config_.min_nodes);
  config_.workers_per_agent = words.Number<std::uint32_t>("workers", 1);
  config_.attempt = words.Number<std::uint32_t>("attempt", 0);
  config_.can_requeue = words.Get("can_requeue") == "yes";
  config_.batch_node = words.Get("batch_node");
  for (const std::string& count : List(words.Get("agents_per_node"))) {
    config_.agents_per_node.push_back(*ParseInteger<std::uint32_t>("agents", count));
  }
  const auto time = [&](const char* name, Duration* out) {
    if (words.Has(name)) *out = *ParseDuration(words.Get(name));
  };
  time("form_timeout", &config_.form_timeout);
  time("last_call", &config_.last_call);
  time("wait_node", &config_.wait_node);
  time("prepare_timeout", &config_.prepare_timeout);
  time("lease", &config_.lease);
  time("stop_grace", &config_.stop_grace);
  for (int cause = 0; cause <= static_cast<int>(protocol::Cause::kGrow); ++cause) {
    const auto value = static_cast<protocol::Cause>(cause);
    const std::string name = Concat("budget.", ToString(value));
    if (words.Has(name)) config_.budgets[value] = {words.Number<std::uint32_t>(name, 0)};
  }
  machine_ = std::make_unique<core::Machine>(config_);
}

core::Machine Player::Replay() const {
  core::Machine machine(config_);
  for (const auto& [event, time] : journal_) {
    machine.Step(event, time);
    machine.CheckInvariants(time);
  }
  return machine;
}

void Player::Step(const Event& event) {
  if (machine_->MustJournal(event)) journal_.emplace_back(event, now_);
  const core::Effects effects = machine_->Step(event, now_);
  machine_->CheckInvariants(now_);
  for (const core::Effect& effect : effects) {
    std::visit([this](const auto& one) { Apply(one); }, effect);
  }
}

void Player::Apply(const core::SendOrder& effect) {
  const auto found = agents_.find(effect.agent);
  if (found == agents_.end()) Fail("an order to an unknown agent");
  found->second.order = effect.order;
}

void Player::Apply(const core::SendAcknowledge& effect) {
  if (effect.number > agents_[effect.agent].number) Fail("acknowledged what was never sent");
}

void Player::Apply(const core::Dismiss& effect) {
  dismissed_.emplace_back(effect.agent, effect.reason);
}

void Player::Apply(const core::ReplyKey& effect) {
  Answered(
      effect.token, effect.answer.status,
      effect.answer.value.empty() ? std::to_string(effect.answer.number) : effect.answer.value);
}

void Player::Apply(const core::ReplyBarrier& effect) { Answered(effect.token, effect.status, {}); }

void Player::Apply(const core::SetWishes& effect) { wishes_ = effect.wishes; }

void Player::Apply(const core::Report& effect) { records_.push_back(effect.record); }

void Player::Answered(core::Token token, const Status& status, std::string value) {
  for (auto& [name, call] : calls_) {
    if (call.token != token) continue;
    if (call.reply) Fail(Concat("call ", name, " was answered twice"));
    call.reply = std::pair(status, std::move(value));
    return;
  }
  Fail("an answer to a token that nobody has");
}

AgentModel& Player::Find(const std::string& name) {
  const auto newest = newest_.find(KeyOf(name));
  if (newest == newest_.end()) Fail(Concat(name, " never joined"));
  std::vector<AgentId>& ids = newest->second;
  const std::size_t back = old_ ? 2 : 1;
  if (ids.size() < back) Fail(Concat(name, " has no older incarnation"));
  return agents_.at(ids[ids.size() - back]);
}

void Player::Send(AgentModel& agent, protocol::UpwardBody body, bool numbered) {
  protocol::Upward message{agent.id, numbered ? ++agent.number : 0, std::move(body)};
  last_message_ = message;
  Step(core::AgentMessage{std::move(message)});
}

protocol::Fence Player::FenceOf(const Words& words) const {
  protocol::Fence fence = machine_->View(now_).fence;
  fence.round = words.Number<std::uint32_t>("round", fence.round);
  return fence;
}

}  // namespace muster::scenario
