#include "tests/scenarios/scenario.h"

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <sstream>
#include <utility>
#include <vector>

#include "common/text.h"
#include "rendezvousd/core/machine.h"

namespace muster::scenario {
namespace {

using core::Event;
using protocol::AgentId;
using protocol::AgentKey;

struct Failure {
  std::string text;
};

[[noreturn]] void Fail(std::string text) { throw Failure{std::move(text)}; }

// The words of a line: bare ones, and name=value options.
struct Words {
  std::vector<std::string> bare;
  std::map<std::string, std::string> options;

  bool Has(const std::string& name) const { return options.contains(name); }
  std::string Get(const std::string& name, std::string other = {}) const {
    const auto found = options.find(name);
    return found == options.end() ? other : found->second;
  }
  template <typename T>
  T Number(const std::string& name, T other) const {
    return Has(name) ? *ParseInteger<T>(name, Get(name)) : other;
  }
};

Words Read(std::string_view line) {
  Words words;
  std::string word;
  std::size_t equals = std::string::npos;
  bool quoted = false;
  bool any = false;
  const auto finish = [&] {
    if (!any) return;
    if (equals == std::string::npos) {
      words.bare.push_back(word);
    } else {
      words.options[word.substr(0, equals)] = word.substr(equals);
    }
    word.clear();
    equals = std::string::npos;
    any = false;
  };
  for (const char c : line) {
    if (c == '"') {
      quoted = !quoted;
      any = true;
    } else if (!quoted && c == '#') {
      break;
    } else if (!quoted && (c == ' ' || c == '\t' || c == '\r')) {
      finish();
    } else if (!quoted && c == '=' && equals == std::string::npos) {
      equals = word.size();
      any = true;
    } else {
      word += c;
      any = true;
    }
  }
  finish();
  return words;
}

std::vector<std::string> List(const std::string& text) {
  std::vector<std::string> out;
  if (text.empty()) return out;
  for (const std::string_view part : Split(text, ',')) out.emplace_back(part);
  return out;
}

AgentKey KeyOf(const std::string& name) {
  const std::size_t colon = name.find(':');
  AgentKey key;
  key.node = name.substr(0, colon);
  if (colon != std::string::npos) {
    key.task_id = *ParseInteger<std::uint32_t>("task", name.substr(colon + 1));
  }
  return key;
}

void Contains(const std::string& text, const std::string& part, std::string_view what) {
  if (text.find(part) == std::string::npos) {
    Fail(Concat(what, " is ", Quote(text), ", without ", Quote(part)));
  }
}

void Equal(const std::string& got, const std::string& wanted, std::string_view what) {
  if (got != wanted) Fail(Concat(what, " is ", Quote(got), ", not ", Quote(wanted)));
}

struct AgentModel {
  AgentId id;
  std::uint64_t number = 0;
  std::optional<protocol::Order> order;
};

class Player {
 public:
  void Line(std::string_view line) {
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

  // The journal gives the same state again.
  void CheckReplay() {
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

 private:
  void Configure(const Words& words) {
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

  core::Machine Replay() const {
    core::Machine machine(config_);
    for (const auto& [event, time] : journal_) {
      machine.Step(event, time);
      machine.CheckInvariants(time);
    }
    return machine;
  }

  void Step(const Event& event) {
    if (machine_->MustJournal(event)) journal_.emplace_back(event, now_);
    const core::Effects effects = machine_->Step(event, now_);
    machine_->CheckInvariants(now_);
    for (const core::Effect& effect : effects) {
      std::visit([this](const auto& one) { Apply(one); }, effect);
    }
  }

  void Apply(const core::SendOrder& effect) {
    const auto found = agents_.find(effect.agent);
    if (found == agents_.end()) Fail("an order to an unknown agent");
    found->second.order = effect.order;
  }
  void Apply(const core::SendAcknowledge& effect) {
    if (effect.number > agents_[effect.agent].number) Fail("acknowledged what was never sent");
  }
  void Apply(const core::Dismiss& effect) { dismissed_.emplace_back(effect.agent, effect.reason); }
  void Apply(const core::ReplyKey& effect) {
    Answered(
        effect.token, effect.answer.status,
        effect.answer.value.empty() ? std::to_string(effect.answer.number) : effect.answer.value);
  }
  void Apply(const core::ReplyBarrier& effect) { Answered(effect.token, effect.status, {}); }
  void Apply(const core::SetWishes& effect) { wishes_ = effect.wishes; }
  void Apply(const core::Report& effect) { records_.push_back(effect.record); }

  void Answered(core::Token token, const Status& status, std::string value) {
    for (auto& [name, call] : calls_) {
      if (call.token != token) continue;
      if (call.reply) Fail(Concat("call ", name, " was answered twice"));
      call.reply = std::pair(status, std::move(value));
      return;
    }
    Fail("an answer to a token that nobody has");
  }

  AgentModel& Find(const std::string& name) {
    const auto newest = newest_.find(KeyOf(name));
    if (newest == newest_.end()) Fail(Concat(name, " never joined"));
    std::vector<AgentId>& ids = newest->second;
    const std::size_t back = old_ ? 2 : 1;
    if (ids.size() < back) Fail(Concat(name, " has no older incarnation"));
    return agents_.at(ids[ids.size() - back]);
  }

  void Send(AgentModel& agent, protocol::UpwardBody body, bool numbered = true) {
    protocol::Upward message{agent.id, numbered ? ++agent.number : 0, std::move(body)};
    last_message_ = message;
    Step(core::AgentMessage{std::move(message)});
  }

  protocol::Fence FenceOf(const Words& words) const {
    protocol::Fence fence = machine_->View(now_).fence;
    fence.round = words.Number<std::uint32_t>("round", fence.round);
    return fence;
  }

  // ---- commands

  void Command(const Words& words) {
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

  // The nodes that a line names: all bare words for verbs that take several, else one.
  std::vector<std::string> Subjects(const Words& words) const {
    static const std::set<std::string> kMany = {"join",    "rejoin", "ready", "detach",
                                                "suspect", "back",   "dead",  "goodbye"};
    if (!kMany.contains(words.bare[0])) return {words.bare.at(1)};
    std::vector<std::string> names(words.bare.begin() + 1, words.bare.end());
    if (words.bare[0] == "dead") names.pop_back();
    return names;
  }

  void OfAgent(const std::string& verb, const std::string& name, const Words& words) {
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
      Send(agent,
           protocol::WorkerRequest{FenceOf(words), 0, kinds.at(words.bare.at(2)), "a reason"});
    } else {
      Fail(Concat("no command ", Quote(verb)));
    }
  }

  void Join(const std::string& name, const Words& words) {
    AgentId id{KeyOf(name), ++incarnations_};
    newest_[id.key].push_back(id);
    AgentModel& agent = agents_[id];
    agent.id = id;
    Hello(agent, words);
  }

  void Hello(AgentModel& agent, const Words& words) {
    protocol::Hello hello;
    hello.version = words.Get("version", "1");
    hello.run_id = words.Get("run", "run1");
    hello.fence.attempt = words.Number<std::uint32_t>("attempt", config_.attempt);
    hello.agents_on_node = words.Number<std::uint32_t>("agents", 1);
    hello.slots = words.Number<std::uint32_t>("slots", config_.workers_per_agent);
    hello.node_index = words.Number<std::uint32_t>("index", 0);
    hello.address = "127.0.0.1";
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

  void Ready(AgentModel& agent, const Words& words) {
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

  void Exit(AgentModel& agent, const Words& words) {
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

  void AnswerWish(const Words& words) {
    const std::map<std::string, protocol::WishKind> kinds = {
        {"drop", protocol::WishKind::kDropNodes},
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

  void Call(const Words& words) {
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

  void Advance(Duration duration) {
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

  // ---- expectations

  void Expect(const Words& words) {
    const std::string& what = words.bare.at(1);
    const protocol::RunView view = machine_->View(now_);
    const auto text = [&](std::size_t i) { return i < words.bare.size() ? words.bare[i] : ""; };
    if (what == "phase") {
      Equal(view.phase, text(2), "the phase");
    } else if (what == "round") {
      Equal(std::to_string(view.fence.round), text(2), "the round");
    } else if (what == "world") {
      Equal(std::to_string(view.world_size), text(2), "the world size");
    } else if (what == "waiting") {
      Contains(view.waiting_for, text(2), "waiting");
    } else if (what == "blame") {
      Equal(std::string(ToString(view.last_blame.cause)), text(2), "the cause");
      Contains(view.last_blame.text, text(3), "the blame");
    } else if (what == "open") {
      Equal(std::string(ToString(view.verdict.outcome)), "none", "the outcome");
    } else if (what == "verdict") {
      Equal(std::string(ToString(view.verdict.outcome)), text(2), "the outcome");
      Equal(std::to_string(view.verdict.exit_code), text(3), "the exit code");
      Contains(view.verdict.blame.text, text(4), "the verdict");
    } else if (what == "finished") {
      if (!machine_->Finished()) Fail("it is not finished");
    } else if (what == "order") {
      ExpectOrder(words);
    } else if (what == "wish" || what == "no-wish") {
      ExpectWish(words);
    } else if (what == "reply" || what == "parked") {
      ExpectReply(words);
    } else if (what == "dismissed") {
      ExpectDismissed(words);
    } else if (what == "record" || what == "no-record") {
      bool found = false;
      std::string all;
      for (const protocol::EventRecord& record : records_) {
        found |= record.kind == text(2) && record.text.find(text(3)) != std::string::npos;
        all += Concat("\n    ", record.kind, ": ", record.text);
      }
      if (found != (what == "record")) Fail(Concat("the records are", all));
    } else if (what == "agent") {
      for (const protocol::AgentView& agent : view.agents) {
        if (agent.key == KeyOf(text(2))) return Contains(agent.state, text(3), "the agent's state");
      }
      Fail("no such agent");
    } else {
      Fail(Concat("no expectation ", Quote(what)));
    }
  }

  void ExpectOrder(const Words& words) {
    const AgentModel& agent = Find(words.bare.at(2));
    const auto current = machine_->CurrentOrder(agent.id, now_);
    if (!agent.order || !current) Fail("it has no order");
    const protocol::Order& order = *agent.order;
    if (order.kind != current->kind || order.fence != current->fence) {
      Fail("the order that was sent is not the present one");
    }
    Equal(std::string(ToString(order.kind)), words.bare.at(3), "the order");
    const protocol::Assignment& own = order.assignment;
    if (words.Has("ranks")) {
      const std::string last = std::to_string(own.first_rank + own.workers - 1);
      Equal(Concat(own.first_rank, own.workers > 1 ? "-" + last : ""), words.Get("ranks"), "ranks");
    }
    const auto same = [&](const char* name, std::string value) {
      if (words.Has(name)) Equal(value, words.Get(name), name);
    };
    same("node_rank", std::to_string(own.node_rank));
    same("fence", std::to_string(order.fence.round));
    same("blame", std::string(ToString(order.blame.cause)));
    same("master", order.master_address);
    same("world", std::to_string(own.world_size));
    same("previous", std::to_string(own.previous_world_size));
    same("restarts", std::to_string(own.restart_count));
    same("local", std::to_string(own.first_local_rank));
    same("exit", std::to_string(order.verdict.exit_code));
  }

  void ExpectWish(const Words& words) {
    if (words.bare[1] == "no-wish") {
      if (!wishes_.empty()) Fail("there is a wish");
      return;
    }
    static const std::map<std::string, protocol::WishKind> kinds = {
        {"drop", protocol::WishKind::kDropNodes},
        {"requeue", protocol::WishKind::kRequeue},
        {"finish", protocol::WishKind::kFinish}};
    for (const protocol::Wish& wish : machine_->CurrentWishes()) {
      if (wish.kind != kinds.at(words.bare.at(2))) continue;
      const std::vector<std::string> nodes(words.bare.begin() + 3, words.bare.end());
      return Equal(Join2(wish.nodes), Join2(nodes), "the wish's nodes");
    }
    Fail("no such wish is open");
  }
  static std::string Join2(const std::vector<std::string>& parts) {
    return muster::Join(parts, " ");
  }

  void ExpectReply(const Words& words) {
    const CallModel& call = calls_.at(words.bare.at(2));
    if (words.bare[1] == "parked") {
      if (call.reply) Fail(Concat("it was answered: ", call.reply->first.ToString()));
      return;
    }
    if (!call.reply) Fail("it was not answered");
    const std::string code =
        call.reply->first.ok() ? "OK" : std::string(StatusCodeName(call.reply->first.code()));
    Equal(code, words.bare.at(3), Concat("the answer ", call.reply->first.message()));
    if (words.bare.size() > 4) {
      Contains(Concat(call.reply->second, call.reply->first.message()), words.bare[4],
               "the answer");
    }
  }

  void ExpectDismissed(const Words& words) {
    for (const auto& [id, status] : dismissed_) {
      if (id.key != KeyOf(words.bare.at(2))) continue;
      Equal(std::string(StatusCodeName(status.code())), words.bare.at(3), status.message());
      return Contains(status.message(), words.bare.size() > 4 ? words.bare[4] : "", "the reason");
    }
    Fail("it was not dismissed");
  }

  struct CallModel {
    core::Token token = 0;
    std::optional<std::pair<Status, std::string>> reply;
  };

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

}  // namespace

std::string Play(std::string_view text) {
  Player player;
  std::size_t number = 0;
  std::string_view line;
  try {
    for (const std::string_view each : Split(text, '\n')) {
      ++number;
      line = each;
      player.Line(line);
    }
    player.CheckReplay();
  } catch (const Failure& failure) {
    return Concat("line ", number, " (", line, "): ", failure.text);
  } catch (const std::exception& error) {
    return Concat("line ", number, " (", line, "): ", error.what());
  }
  return {};
}

}  // namespace muster::scenario
