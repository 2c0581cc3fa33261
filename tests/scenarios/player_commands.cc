#include "tests/scenarios/player.h"

#include <algorithm>
#include <set>
#include <utility>

#include "common/text.h"

namespace muster::scenario {

void Player::Command(const Words& words) {
  const std::string& verb = words.bare[0];
  if (verb == "old") {
    Words rest = words;
    rest.bare.erase(rest.bare.begin());
    // "old NODE exit 0" reads as "exit NODE 0" of the older incarnation.
    std::swap(rest.bare[0], rest.bare[1]);
    old_ = true;
    Command(rest);
    old_ = false;
  } else if (verb == "advance") {
    Advance(*ParseDuration(words.bare.at(1)));
  } else if (verb == "again") {
    Step(core::AgentMessage{last_message_.value()});
  } else if (verb == "restart-daemon") {
    CheckReplay();
    *machine_ = Replay();
    for (auto& [name, call] : calls_) {
      if (!call.reply) call.token = 0;
    }
    Step(core::Restarted{});
  } else if (verb == "operator") {
    const std::map<std::string, protocol::OperatorAction> actions = {
        {"stop", protocol::OperatorAction::kStop},
        {"cancel", protocol::OperatorAction::kCancel},
        {"restart", protocol::OperatorAction::kRestart}};
    Step(core::HostMessage{protocol::OperatorRequest{actions.at(words.bare.at(1)), "by hand"}});
  } else if (verb == "facts") {
    protocol::HostFacts facts;
    facts.can_requeue = words.Get("can_requeue") == "yes";
    facts.dead_nodes = List(words.Get("dead"));
    facts.starting_nodes = List(words.Get("starting"));
    facts.agents_step_ended = words.Get("step_ended");
    Step(core::HostMessage{facts});
  } else if (verb == "answer") {
    AnswerWish(words);
  } else if (verb == "key" || verb == "barrier") {
    Call(words);
  } else if (verb == "expire") {
    Step(core::CallExpired{calls_.at(words.bare.at(1)).token});
  } else {
    for (const std::string& name : Subjects(words)) OfAgent(verb, name, words);
  }
}

std::vector<std::string> Player::Subjects(const Words& words) const {
  static const std::set<std::string> kMany = {"join",    "rejoin", "ready", "detach",
                                              "suspect", "back",   "dead",  "goodbye"};
  if (!kMany.contains(words.bare[0])) return {words.bare.at(1)};
  std::vector<std::string> names(words.bare.begin() + 1, words.bare.end());
  if (words.bare[0] == "dead") names.pop_back();
  return names;
}

void Player::OfAgent(const std::string& verb, const std::string& name, const Words& words) {
  if (verb == "join") return Join(name, words);
  AgentModel& agent = Find(name);
  if (verb == "rejoin") {
    Hello(agent, words);
  } else if (verb == "ready") {
    Ready(agent, words);
  } else if (verb == "detach") {
    Step(core::AgentDetached{agent.id});
  } else if (verb == "suspect") {
    Step(core::AgentSuspect{agent.id, "silent"});
  } else if (verb == "back") {
    Step(core::AgentBack{agent.id});
  } else if (verb == "dead") {
    const bool node = words.bare.back() == "node";
    Step(core::AgentDead{agent.id, node ? protocol::Cause::kNode : protocol::Cause::kAgent,
                         "evidence"});
  } else if (verb == "goodbye") {
    Send(agent, protocol::Goodbye{words.Get("reason", "told to end")});
  } else if (verb == "exit") {
    Exit(agent, words);
  } else if (verb == "progress") {
    Send(agent,
         protocol::WorkerProgress{FenceOf(words), 0, 1, words.Number<std::int64_t>("step", 1)},
         false);
  } else if (verb == "broken") {
    Send(agent, protocol::WorkerBroken{FenceOf(words), 0, "connection reset"});
  } else if (verb == "request") {
    const std::map<std::string, std::uint8_t> kinds = {{"requeue", 0}, {"stop", 1}, {"done", 2}};
    Send(agent, protocol::WorkerRequest{FenceOf(words), 0, kinds.at(words.bare.at(2)), "a reason"});
  } else {
    Fail(Concat("no command ", Quote(verb)));
  }
}

void Player::Join(const std::string& name, const Words& words) {
  AgentId id{KeyOf(name), ++incarnations_};
  newest_[id.key].push_back(id);
  AgentModel& agent = agents_[id];
  agent.id = id;
  Hello(agent, words);
}

void Player::Hello(AgentModel& agent, const Words& words) {
  protocol::Hello hello;
  hello.version = words.Get("version", "1");
  hello.run_id = words.Get("run", "run1");
  hello.fence.attempt = words.Number<std::uint32_t>("attempt", config_.attempt);
  hello.agents_on_node = words.Number<std::uint32_t>("agents", 1);
  hello.slots = words.Number<std::uint32_t>("slots", config_.workers_per_agent);
  hello.node_index = words.Number<std::uint32_t>("index", 0);
  hello.address = "127.0.0.1";
  hello.problem = words.Get("problem");
  hello.problem_code = words.Number<std::int32_t>("code", 0);
  for (const std::string& ended : List(words.Get("ended"))) {
    const std::vector<std::string_view> parts = Split(ended, ':');
    protocol::WorkerStatus worker;
    worker.local_rank = *ParseInteger<std::uint32_t>("local rank", parts.at(0));
    worker.exit_code = *ParseInteger<std::int32_t>("code", parts.at(1));
    worker.fence = FenceOf(words);
    hello.workers.push_back(worker);
  }
  Send(agent, std::move(hello), false);
}

void Player::Ready(AgentModel& agent, const Words& words) {
  protocol::Ready ready;
  if (!agent.order) Fail("the agent has no order");
  ready.fence = agent.order->fence;
  ready.fence.round = words.Number<std::uint32_t>("round", ready.fence.round);
  ready.problem = words.Get("problem");
  if (agent.order->assignment.first_rank == 0 && words.Get("master") != "none") {
    ready.master_address = agent.id.key.node;
    ready.master_port = 1;
  }
  Send(agent, std::move(ready));
}

void Player::Exit(AgentModel& agent, const Words& words) {
  protocol::WorkerExited exit;
  exit.fence = FenceOf(words);
  exit.local_rank = *ParseInteger<std::uint32_t>("local rank", words.bare.at(2));
  exit.signal = words.Number<std::int32_t>("signal", 0);
  exit.exit_code = words.Number<std::int32_t>("code", exit.signal == 0 ? 0 : 128 + exit.signal);
  exit.last_line = words.Get("line");
  if (words.Get("cause") == "memory") exit.cause = protocol::Cause::kMemory;
  if (words.Get("cause") == "hang") exit.cause = protocol::Cause::kHang;
  Send(agent, std::move(exit));
}

void Player::AnswerWish(const Words& words) {
  const std::map<std::string, protocol::WishKind> kinds = {
      {"drop", protocol::WishKind::kDropNodes},
      {"start", protocol::WishKind::kStartAgent},
      {"requeue", protocol::WishKind::kRequeue},
      {"finish", protocol::WishKind::kFinish}};
  for (const protocol::Wish& wish : wishes_) {
    if (wish.kind != kinds.at(words.bare.at(2))) continue;
    const bool done = words.bare.at(1) == "done";
    return Step(core::HostMessage{protocol::WishAnswer{
        wish.id, done ? protocol::WishState::kDone : protocol::WishState::kRefused,
        words.Get("reason")}});
  }
  Fail("no such wish is open");
}

void Player::Call(const Words& words) {
  const AgentModel& agent = Find(words.bare.at(1));
  CallModel& call = calls_[words.bare.at(2)];
  call = {++tokens_, std::nullopt};
  const protocol::RequestId id{agent.id, words.Number<std::uint64_t>("id", 0)};
  if (words.bare[0] == "barrier") {
    protocol::BarrierRequest request{id, FenceOf(words), words.bare.at(3), {}};
    for (std::size_t i = 4; i < words.bare.size(); ++i) {
      request.ranks.push_back(*ParseInteger<std::uint32_t>("rank", words.bare[i]));
    }
    return Step(core::BarrierCall{call.token, request});
  }
  const std::map<std::string, protocol::KeyOperation> operations = {
      {"set", protocol::KeyOperation::kSet},
      {"get", protocol::KeyOperation::kGet},
      {"wait", protocol::KeyOperation::kWait},
      {"add", protocol::KeyOperation::kAdd}};
  protocol::KeyRequest request;
  request.id = id;
  request.fence = FenceOf(words);
  request.operation = operations.at(words.bare.at(3));
  request.key = words.bare.at(4);
  request.of_run = words.bare.back() == "run";
  if (request.operation == protocol::KeyOperation::kSet) request.value = words.bare.at(5);
  if (request.operation == protocol::KeyOperation::kAdd) {
    request.delta = *ParseInteger<std::int64_t>("delta", words.bare.at(5));
  }
  Step(core::KeyCall{call.token, request});
}

void Player::Advance(Duration duration) {
  const TimePoint end = now_ + duration;
  for (int fired = 0;; ++fired) {
    const std::optional<TimePoint> next = machine_->NextDeadline();
    if (!next || *next > end) break;
    if (fired > 10'000) Fail("deadlines do not stop firing");
    now_ = std::max(now_, *next);
    Step(core::DeadlinePassed{});
  }
  now_ = end;
}

}  // namespace muster::scenario
