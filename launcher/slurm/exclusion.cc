#include <algorithm>
#include <set>

#include "common/host_list.h"
#include "common/text.h"
#include "launcher/slurm/requeue.h"

namespace muster::slurm {
namespace {

// A clean end leaves COMPLETING within this on every machine measured.
constexpr Duration kCleanDelay = std::chrono::seconds(3);
// KillWait ends with SIGKILL; the nodes' answers come within this after it.
constexpr Duration kKillMargin = std::chrono::seconds(10);

}  // namespace

Duration StartDelay(const RequeueRequest& request) {
  return request.clean_end ? kCleanDelay : request.kill_wait + kKillMargin;
}

Exclusion ChooseExclusion(const std::vector<NodeInfo>& partition,
                          const std::vector<std::string>& user,
                          const std::vector<std::string>& keep_away, int wanted_nodes,
                          int min_nodes) {
  Exclusion out{.nodes = user, .node_count = {}, .note = {}};
  const std::set<std::string> user_set(user.begin(), user.end());
  std::set<std::string> usable;
  for (const NodeInfo& node : partition) {
    if (node.usable && !user_set.contains(node.name)) usable.insert(node.name);
  }
  // Those that Slurm keeps away by itself need no exclusion, which would outlive their repair.
  std::vector<std::string> live;
  for (const std::string& node : keep_away) {
    if (usable.contains(node) && std::find(live.begin(), live.end(), node) == live.end()) {
      live.push_back(node);
    }
  }
  const int have = static_cast<int>(usable.size());
  const int least = std::min(std::max(min_nodes, 1), wanted_nodes);
  const int after_all = have - static_cast<int>(live.size());
  const int after = std::max(after_all, std::min(have, least));
  const std::size_t count = static_cast<std::size_t>(have - after);
  out.nodes.insert(out.nodes.end(), live.begin(), live.begin() + static_cast<long>(count));
  if (count < live.size()) {
    out.note = Concat("only ", count, " of ", live.size(), " suspects (", CompressHostList(live),
                      ") are excluded: the partition has ", have,
                      " usable nodes and the run needs ", least);
  }
  // Fewer than the least: the job waits for Slurm, which may get a node back.
  if (after < wanted_nodes && after >= least) out.node_count = after;
  return out;
}

}  // namespace muster::slurm
