#include "launcher/agent/place.h"

#include <cctype>

#include "common/count_list.h"
#include "common/text.h"

namespace muster::agent {
namespace {

Result<std::uint32_t> Number(const Environment& environment, const std::string& name,
                             std::uint32_t otherwise) {
  const auto found = environment.find(name);
  if (found == environment.end() || found->second.empty()) return otherwise;
  return ParseInteger<std::uint32_t>(name, found->second);
}

Result<Place> LocalPlace(const std::string& node) {
  Place place;
  place.node = node;
  std::size_t digits = node.size();
  while (digits > 0 && std::isdigit(static_cast<unsigned char>(node[digits - 1])) != 0) --digits;
  if (digits < node.size()) {
    MUSTER_ASSIGN_OR_RETURN(place.node_index,
                            ParseInteger<std::uint32_t>(kLocalNode, node.substr(digits)));
  }
  place.task_id = place.node_index;
  return place;
}

}  // namespace

std::string Lookup(const Environment& environment, const std::string& name) {
  const auto found = environment.find(name);
  return found == environment.end() ? std::string() : found->second;
}

Result<Place> PlaceFromEnvironment(const Environment& environment, const Options& options,
                                   const std::string& host_name) {
  const std::string local = Lookup(environment, kLocalNode);
  if (options.local || !local.empty()) return LocalPlace(local.empty() ? "local0" : local);

  Place place;
  place.slurm = !Lookup(environment, "SLURM_JOB_ID").empty();
  place.node = Lookup(environment, "SLURMD_NODENAME");
  if (place.node.empty()) place.node = host_name;
  MUSTER_ASSIGN_OR_RETURN(place.step_id, Number(environment, "SLURM_STEP_ID", 0));
  MUSTER_ASSIGN_OR_RETURN(place.task_id, Number(environment, "SLURM_PROCID", 0));
  MUSTER_ASSIGN_OR_RETURN(place.node_index, Number(environment, "SLURM_NODEID", 0));
  // The step's counts, never the job's: a step may be smaller than its allocation.
  const std::string counts = Lookup(environment, "SLURM_STEP_TASKS_PER_NODE");
  if (counts.empty()) return place;
  MUSTER_ASSIGN_OR_RETURN(const std::vector<int> expanded,
                          ExpandCountList("SLURM_STEP_TASKS_PER_NODE", counts));
  if (place.node_index >= expanded.size()) {
    return InvalidArgument(Concat("SLURM_NODEID is ", place.node_index,
                                  " but SLURM_STEP_TASKS_PER_NODE ", Quote(counts), " has only ",
                                  expanded.size(), " nodes"));
  }
  const int count = expanded[place.node_index];
  if (count > 0) place.agents_on_node = static_cast<std::uint32_t>(count);
  return place;
}

}  // namespace muster::agent
