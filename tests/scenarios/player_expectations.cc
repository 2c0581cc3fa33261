#include "tests/scenarios/player.h"

#include "common/text.h"

namespace muster::scenario {

void Player::Expect(const Words& words) {
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

void Player::ExpectOrder(const Words& words) {
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

void Player::ExpectWish(const Words& words) {
  if (words.bare[1] == "no-wish") {
    if (!wishes_.empty()) Fail("there is a wish");
    return;
  }
  static const std::map<std::string, protocol::WishKind> kinds = {
      {"drop", protocol::WishKind::kDropNodes},
      {"start", protocol::WishKind::kStartAgent},
      {"requeue", protocol::WishKind::kRequeue},
      {"finish", protocol::WishKind::kFinish}};
  for (const protocol::Wish& wish : machine_->CurrentWishes()) {
    if (wish.kind != kinds.at(words.bare.at(2))) continue;
    const std::vector<std::string> nodes(words.bare.begin() + 3, words.bare.end());
    return Equal(muster::Join(wish.nodes, " "), muster::Join(nodes, " "), "the wish's nodes");
  }
  Fail("no such wish is open");
}

void Player::ExpectReply(const Words& words) {
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
    Contains(Concat(call.reply->second, call.reply->first.message()), words.bare[4], "the answer");
  }
}

void Player::ExpectDismissed(const Words& words) {
  for (const auto& [id, status] : dismissed_) {
    if (id.key != KeyOf(words.bare.at(2))) continue;
    Equal(std::string(StatusCodeName(status.code())), words.bare.at(3), status.message());
    return Contains(status.message(), words.bare.size() > 4 ? words.bare[4] : "", "the reason");
  }
  Fail("it was not dismissed");
}

}  // namespace muster::scenario
