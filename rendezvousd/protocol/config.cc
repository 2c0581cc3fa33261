#include "rendezvousd/protocol/config.h"

#include <set>

#include "common/text.h"

namespace muster::protocol {
namespace {

Status CheckNodes(const Config& config) {
  if (config.min_nodes < 1) return InvalidArgument("min_nodes is 0; a round needs a node");
  if (config.min_nodes > config.max_nodes) {
    return InvalidArgument(Concat("min_nodes ", config.min_nodes, " is above max_nodes ",
                                  config.max_nodes, "; lower the one or raise the other"));
  }
  if (!config.nodes.empty() && config.max_nodes > config.nodes.size()) {
    return InvalidArgument(Concat("max_nodes is ", config.max_nodes, " but only ",
                                  config.nodes.size(), " nodes are expected"));
  }
  std::set<std::string_view> seen;
  for (const std::string& node : config.nodes) {
    if (node.empty()) return InvalidArgument("nodes has an empty name");
    if (!seen.insert(node).second) {
      return InvalidArgument(Concat("nodes names ", Quote(node), " twice"));
    }
  }
  if (config.agents_per_node.empty()) return OkStatus();
  if (config.agents_per_node.size() != config.nodes.size()) {
    return InvalidArgument(Concat("agents_per_node has ", config.agents_per_node.size(),
                                  " counts for ", config.nodes.size(), " nodes"));
  }
  for (std::size_t i = 0; i < config.nodes.size(); ++i) {
    if (config.agents_per_node[i] == 0) {
      return InvalidArgument(
          Concat("agents_per_node is 0 for ", config.nodes[i], "; leave the node out instead"));
    }
  }
  return OkStatus();
}

Status CheckTimers(const Config& config) {
  struct Timer {
    const char* name;
    Duration value;
    bool may_be_zero;
  };
  const Timer timers[] = {
      {"form_timeout", config.form_timeout, false},
      {"last_call", config.last_call, true},
      {"wait_node", config.wait_node, true},
      {"prepare_timeout", config.prepare_timeout, false},
      {"beat", config.beat, false},
      {"lease", config.lease, false},
      {"probe_timeout", config.probe_timeout, false},
      {"attend_grace", config.attend_grace, true},
      {"stop_grace", config.stop_grace, true},
  };
  // No wait of a training job is longer, and sums of a few stay far within 64 bits.
  constexpr Duration kLongest = std::chrono::hours(24 * 366);
  for (const Timer& timer : timers) {
    if (timer.value < Duration::zero() || timer.value > kLongest ||
        (timer.value == Duration::zero() && !timer.may_be_zero)) {
      return InvalidArgument(Concat(timer.name, " is ", timer.value.count(), " ns; it must be ",
                                    timer.may_be_zero ? "0" : "above 0", " and at most 366 days"));
    }
  }
  if (config.lease <= 2 * config.beat) {
    return InvalidArgument(Concat("lease ", FormatDuration(config.lease),
                                  " is not above two beats of ", FormatDuration(config.beat),
                                  "; one lost beat would make a node suspect"));
  }
  return OkStatus();
}

}  // namespace

std::map<Cause, Budget> DefaultBudgets() {
  return {
      {Cause::kInitial, {kUnboundedRestarts}},  // a first round costs nothing
      {Cause::kCode, {3}},                      // and only after progress
      {Cause::kMemory, {1}},
      {Cause::kNode, {10}},
      {Cause::kNetwork, {10}},
      {Cause::kHang, {3}},
      {Cause::kPreemption, {kUnboundedRestarts}},
      {Cause::kTimeLimit, {kUnboundedRestarts}},
      {Cause::kOperator, {kUnboundedRestarts}},
      {Cause::kAgent, {10}},
      {Cause::kGrow, {kUnboundedRestarts}},
  };
}

std::uint32_t RestartsAllowed(const Config& config, Cause cause) {
  if (const auto found = config.budgets.find(cause); found != config.budgets.end()) {
    return found->second.restarts;
  }
  static const std::map<Cause, Budget> defaults = DefaultBudgets();
  const auto found = defaults.find(cause);
  return found == defaults.end() ? 0 : found->second.restarts;
}

std::uint32_t AgentsOnNode(const Config& config, std::size_t index) {
  return config.agents_per_node.empty() ? 1 : config.agents_per_node.at(index);
}

Status Validate(const Config& config) {
  if (config.run_id.empty()) return InvalidArgument("run_id is empty");
  if (config.version.empty()) return InvalidArgument("version is empty");
  if (config.workers_per_agent < 1) {
    return InvalidArgument("workers_per_agent is 0; an agent supervises at least one worker");
  }
  MUSTER_RETURN_IF_ERROR(CheckNodes(config));
  return CheckTimers(config);
}

}  // namespace muster::protocol
