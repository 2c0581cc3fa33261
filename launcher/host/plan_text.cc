#include <algorithm>
#include <nlohmann/json.hpp>

#include "common/text.h"
#include "launcher/host/plan.h"

namespace muster::host {
namespace {

std::string Table(const std::vector<PlanLine>& lines) {
  std::size_t names = 0;
  std::size_t values = 0;
  for (const PlanLine& line : lines) {
    names = std::max(names, line.name.size());
    values = std::max(values, line.value.size());
  }
  // A long value pushes its own reason only.
  values = std::min<std::size_t>(values, 24);
  std::string out;
  for (const PlanLine& line : lines) {
    std::string text = Concat("  ", line.name);
    text.resize(names + 4, ' ');
    text += line.value;
    if (text.size() < names + 4 + values) text.resize(names + 4 + values, ' ');
    out += Concat(text, "  ", line.reason, "\n");
  }
  return out;
}

nlohmann::ordered_json ToJson(const std::vector<PlanLine>& lines) {
  nlohmann::ordered_json out = nlohmann::ordered_json::array();
  for (const PlanLine& line : lines) {
    out.push_back({{"name", line.name}, {"value", line.value}, {"reason", line.reason}});
  }
  return out;
}

}  // namespace

std::string PlanText(const Plan& plan) {
  std::string out = Concat("program: ", Join(plan.program, " "), "\n");
  out += Concat("world:\n", Table(plan.lines));
  out += Concat("environment of the workers (beside the facts that every round sets):\n",
                Table(plan.environment));
  for (const std::string& warning : plan.warnings) out += Concat("warning: ", warning, "\n");
  return out;
}

std::string PlanJson(const Plan& plan) {
  const nlohmann::ordered_json out = {
      {"program", plan.program},
      {"nodes", plan.nodes},
      {"min_nodes", plan.min_nodes},
      {"max_nodes", plan.max_nodes},
      {"spares", plan.spares},
      {"workers_per_node", plan.workers_per_node},
      {"can_requeue", plan.can_requeue},
      {"world", ToJson(plan.lines)},
      {"environment", ToJson(plan.environment)},
      {"warnings", plan.warnings},
  };
  return out.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace muster::host
