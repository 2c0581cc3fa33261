#include "rendezvousd/server/view_json.h"

#include <nlohmann/json.hpp>

namespace muster::server {
namespace {

using Json = nlohmann::ordered_json;

Json Object(const protocol::Fence& fence) {
  return {{"attempt", fence.attempt}, {"round", fence.round}};
}

Json Object(const protocol::Blame& blame) {
  return {{"cause", std::string(ToString(blame.cause))},
          {"node", blame.node},
          {"rank", blame.rank},
          {"exit_code", blame.exit_code},
          {"text", blame.text}};
}

Json Object(const protocol::Verdict& verdict) {
  return {{"outcome", std::string(ToString(verdict.outcome))},
          {"exit_code", verdict.exit_code},
          {"blame", Object(verdict.blame)}};
}

Json Object(const protocol::AgentView& agent) {
  return {{"node", agent.key.node},       {"step", agent.key.step_id},
          {"task", agent.key.task_id},    {"state", agent.state},
          {"node_rank", agent.node_rank}, {"workers", agent.workers},
          {"last_step", agent.last_step}};
}

// A text from a worker may hold any bytes: those that are no UTF-8 are shown as U+FFFD.
std::string Text(const Json& json, int indent) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

bool IsLost(const protocol::AgentView& agent) {
  return agent.state.starts_with("suspect") || agent.state.starts_with("dead");
}

}  // namespace

std::string StatusJson(const protocol::RunView& view, std::int64_t unix_ms) {
  Json agents = Json::array();
  for (const protocol::AgentView& agent : view.agents) agents.push_back(Object(agent));
  return Text({{"run_id", view.run_id},
               {"updated_unix_ms", unix_ms},
               {"phase", view.phase},
               {"fence", Object(view.fence)},
               {"world_size", view.world_size},
               {"waiting_for", view.waiting_for},
               {"last_blame", Object(view.last_blame)},
               {"verdict", Object(view.verdict)},
               {"agents", std::move(agents)}},
              1) +
         "\n";
}

std::string EventJson(const protocol::EventRecord& record) {
  return Text({{"unix_ms", record.unix_ms},
               {"kind", record.kind},
               {"fence", Object(record.fence)},
               {"node", record.node},
               {"rank", record.rank},
               {"text", record.text}},
              -1);
}

std::string VerdictJson(const protocol::RunView& view, std::int64_t unix_ms) {
  return Text({{"run_id", view.run_id},
               {"unix_ms", unix_ms},
               {"fence", Object(view.fence)},
               {"verdict", Object(view.verdict)}},
              1) +
         "\n";
}

std::string HandoverJson(const protocol::RunView& view, std::int64_t unix_ms) {
  Json lost = Json::array();
  for (const protocol::AgentView& agent : view.agents) {
    if (IsLost(agent)) lost.push_back({{"node", agent.key.node}, {"state", agent.state}});
  }
  return Text({{"run_id", view.run_id},
               {"unix_ms", unix_ms},
               {"fence", Object(view.fence)},
               {"world_size", view.world_size},
               {"last_blame", Object(view.last_blame)},
               {"verdict", Object(view.verdict)},
               {"suspects", std::move(lost)}},
              1) +
         "\n";
}

}  // namespace muster::server
