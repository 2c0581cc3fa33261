#include "launcher/host/plan.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "common/count_list.h"
#include "common/host_list.h"
#include "common/text.h"
#include "launcher/host/version.h"
#include "launcher/network/settings.h"

namespace muster::host {
namespace {

// A lease of five beats loses nobody by four late ones; a beat a second is enough for any lease.
constexpr int kBeatsInLease = 5;
constexpr Duration kLongestBeat = std::chrono::seconds(1);

class Planner {
 public:
  explicit Planner(const PlanInput& input) : input_(input), options_(input.options) {}

  Result<Plan> Make() {
    if (input_.program.empty()) {
      return InvalidArgument(
          "no program to run; write it behind the options: muster run [options] -- PROGRAM "
          "[ARGUMENTS]");
    }
    plan_.program = input_.program;
    plan_.local = options_.local.has_value();
    MUSTER_RETURN_IF_ERROR(plan_.local ? LocalNodes() : SlurmNodes());
    MUSTER_RETURN_IF_ERROR(Workers());
    MUSTER_RETURN_IF_ERROR(Timers());
    Requeue();
    Environment();
    return std::move(plan_);
  }

 private:
  Status LocalNodes() {
    const int nodes = options_.local->nodes;
    for (int i = 0; i < nodes; ++i) plan_.nodes.push_back(Concat("local", i));
    return Shape(Concat("--local plays ", nodes, nodes == 1 ? " node" : " nodes"));
  }

  Status SlurmNodes() {
    const slurm::Allocation& allocation = input_.allocation;
    if (allocation.place == slurm::Place::kNoJob) {
      return InvalidArgument(
          "not in a Slurm job: SLURM_JOB_ID is not set. Put `muster run` into an sbatch script, "
          "use `muster submit -N NODES -- PROGRAM`, or run on this machine alone with --local N");
    }
    if (allocation.step && allocation.step->tasks > 1) {
      return InvalidArgument(
          Concat("started by srun as ", allocation.step->tasks, " tasks (SLURM_STEP_NUM_TASKS); ",
                 "`muster run` starts once and reaches all nodes itself: leave srun out, or use "
                 "`srun --muster PROGRAM`"));
    }
    std::set<std::string_view> taken;
    for (const Claim& claim : input_.claims) taken.insert(claim.nodes.begin(), claim.nodes.end());
    for (const std::string& node : allocation.nodes) {
      if (!taken.contains(node)) plan_.nodes.push_back(node);
    }
    return Shape(Concat("the job has ", CompressHostList(allocation.nodes)));
  }

  std::string Others() const {
    std::string text;
    for (const Claim& claim : input_.claims) {
      text += Concat("; run ", claim.run_name, " holds ", CompressHostList(claim.nodes));
    }
    return text;
  }

  Status TooFew(const std::string& wanted) const {
    const std::size_t there = plan_.nodes.size();
    const std::string have = plan_.local
                                 ? Concat("--local plays ", there)
                                 : Concat("the job has ", input_.allocation.nodes.size(), " (",
                                          CompressHostList(input_.allocation.nodes), ")", Others());
    if (!input_.claims.empty()) {
      return InvalidArgument(Concat(wanted, ", but ", have, ", so ", there, " ",
                                    there == 1 ? "is" : "are",
                                    " free: wait for the other run, or ask for fewer"));
    }
    return InvalidArgument(
        Concat(wanted, ", but ", have, "; ask for fewer, or give the job more nodes"));
  }

  Status Shape(const std::string& have) {
    const int there = static_cast<int>(plan_.nodes.size());
    const int spares = options_.spares;
    const std::string also = spares == 0 ? "" : Concat(" and --spares ", spares);
    int min = there - spares;
    int max = min;
    std::string reason = Concat("all that are there but the spares (", have, ")");
    if (options_.nodes) {
      min = options_.nodes->min;
      max = options_.nodes->max;
      reason = Concat("--nodes; ", have);
      if (min == max && min + spares > there) {
        return TooFew(Concat("--nodes ", min, also, " need ", min + spares,
                             min + spares == 1 ? " node" : " nodes"));
      }
      if (min > there) return TooFew(Concat("--nodes ", min, ":", max, " needs ", min, " nodes"));
      if (max > there) {
        plan_.warnings.push_back(Concat("--nodes allows ", max, " nodes, ", there,
                                        " are there; the world can grow to ", there));
        max = there;
      }
      plan_.nodes.resize(static_cast<std::size_t>(std::min(there, max + spares)));
    } else if (min < 1) {
      return TooFew(there == 0 ? "the run needs a node"
                               : Concat("--spares ", spares, " and one node of the world need ",
                                        spares + 1, " nodes"));
    }
    plan_.min_nodes = static_cast<std::uint32_t>(min);
    plan_.max_nodes = static_cast<std::uint32_t>(max);
    plan_.spares = static_cast<std::uint32_t>(plan_.nodes.size()) - plan_.max_nodes;
    Line("nodes", min == max ? Concat(min) : Concat(min, ":", max), reason);
    Line("agents on", CompressHostList(plan_.nodes), "one agent a node");
    Line("spares", Concat(plan_.spares),
         plan_.spares == 0 ? "a lost node ends this attempt: the job is requeued or fails"
                           : "each replaces a lost node within seconds");
    return OkStatus();
  }

  Status Workers() {
    const slurm::Allocation& allocation = input_.allocation;
    int workers = 1;
    std::string reason = "nothing asks for more";
    if (options_.workers_per_node) {
      workers = *options_.workers_per_node;
      reason = "--workers-per-node";
      if (plan_.local && options_.local->workers && *options_.local->workers != workers) {
        return InvalidArgument(Concat("--local asks for ", *options_.local->workers,
                                      " workers a node, --workers-per-node for ", workers,
                                      "; give one of them"));
      }
    } else if (plan_.local) {
      workers = options_.local->workers.value_or(1);
      reason = "--local";
    } else if (allocation.tasks_requested && !allocation.tasks_per_node.empty() &&
               std::ranges::max(allocation.tasks_per_node) > 1) {
      const std::vector<int>& counts = allocation.tasks_per_node;
      if (std::ranges::min(counts) != std::ranges::max(counts)) {
        return InvalidArgument(Concat(
            "SLURM_TASKS_PER_NODE is ", Quote(CompressCountList(counts)), ": the nodes of ",
            CompressHostList(allocation.nodes),
            " have different numbers of tasks, and a world has the same number of workers on "
            "every node; give --workers-per-node, or --ntasks-per-node to sbatch"));
      }
      workers = counts.front();
      reason = "the job's tasks per node";
    } else if (allocation.gpus_on_node.value_or(0) > 1) {
      workers = *allocation.gpus_on_node;
      reason = "the job's GPUs per node";
    }
    plan_.workers_per_node = static_cast<std::uint32_t>(workers);
    Line("workers per node", Concat(workers), reason);
    const std::uint32_t least = plan_.min_nodes * plan_.workers_per_node;
    const std::uint32_t most = plan_.max_nodes * plan_.workers_per_node;
    Line("world size", least == most ? Concat(least) : Concat(least, " to ", most),
         "nodes times workers per node");
    Slots(workers);
    return OkStatus();
  }

  // More workers than nodes can be given is an error (Shape). More workers than a node has CPUs or
  // GPUs is a warning: several may share one, and only NCCL refuses a GPU that two ranks use.
  void Slots(int workers) {
    const slurm::Allocation& allocation = input_.allocation;
    if (plan_.local) return;
    const int gpus = allocation.gpus_on_node.value_or(0);
    if (gpus > 0 && workers > gpus) {
      plan_.warnings.push_back(
          Concat(workers, " workers share ", gpus, gpus == 1 ? " GPU" : " GPUs", " on each node"));
    } else if (gpus > workers) {
      plan_.warnings.push_back(Concat("each node has ", gpus, " GPUs for ", workers,
                                      " workers; the rest is idle "
                                      "unless a worker uses several"));
    }
    if (allocation.cpus_per_node.size() != allocation.nodes.size()) return;
    for (std::size_t i = 0; i < allocation.nodes.size(); ++i) {
      if (allocation.cpus_per_node[i] >= workers) continue;
      plan_.warnings.push_back(
          Concat(allocation.nodes[i], " gives the job ", allocation.cpus_per_node[i],
                 allocation.cpus_per_node[i] == 1 ? " CPU for " : " CPUs for ", workers,
                 " workers; ask for more CPUs (--cpus-per-task, "
                 "--exclusive)"));
      break;
    }
  }

  Status Timers() {
    plan_.lease = options_.lease;
    plan_.beat = BeatOf(options_.lease);
    protocol::Config config = ToConfig(plan_, options_);
    config.run_id = "plan";
    if (options_.lease < std::chrono::milliseconds(100)) {
      return InvalidArgument(Concat("--lease ", FormatDuration(options_.lease),
                                    " is shorter than a busy machine's pause; give 100ms at "
                                    "least, 2s is short, 5s the default"));
    }
    if (options_.form_timeout <= Duration::zero()) {
      return InvalidArgument("--form-timeout 0s leaves no time to form a world; give 30m, say");
    }
    MUSTER_RETURN_IF_ERROR(protocol::Validate(config));
    Line("lease", FormatDuration(plan_.lease), Concat("a beat every ", FormatDuration(plan_.beat)));
    Line("form time-out", FormatDuration(options_.form_timeout), "from the first agent on");
    Line("wait for a lost node", FormatDuration(options_.wait_node), "before a requeue");
    if (plan_.min_nodes != plan_.max_nodes) {
      Line("last call", FormatDuration(options_.last_call), "for more nodes than the minimum");
    }
    Line("TERM to KILL", FormatDuration(options_.stop_grace), "when workers are stopped");
    return OkStatus();
  }

  void Requeue() {
    std::string reason = "a batch job; Slurm is asked before each requeue";
    plan_.can_requeue = input_.allocation.place == slurm::Place::kBatch && !options_.no_requeue;
    if (plan_.local) {
      plan_.can_requeue = false;
      reason = "--local has no job";
    } else if (options_.no_requeue) {
      reason = "--no-requeue";
    } else if (!plan_.can_requeue) {
      reason = "not in a batch script";
    }
    Line("requeue", plan_.can_requeue ? "yes" : "no", reason);
  }

  bool Kept(std::string_view name) const {
    return std::ranges::find(options_.keep_environment, name) != options_.keep_environment.end();
  }

  void Environment() {
    // Facts that scripts commonly compute by themselves. The agent's table has all of them.
    for (const char* name : {"MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE", "LOCAL_RANK",
                             "LOCAL_WORLD_SIZE", "NODE_RANK"}) {
      const std::string_view own = slurm::Lookup(input_.environment, name);
      if (own.empty()) {
        plan_.environment.push_back({name, "(by round)", "a fact of the world"});
      } else if (Kept(name)) {
        plan_.environment.push_back({name, std::string(own), "--keep-env"});
      } else {
        plan_.environment.push_back({name, "(by round)", "a fact of the world"});
        plan_.warnings.push_back(Concat(name, "=", own,
                                        " in your environment is replaced: it is "
                                        "a fact of the world; --keep-env ",
                                        name, " keeps it"));
      }
    }
    // By node, the agent adds what depends on its interface and its local folder.
    for (const network::Setting& setting : network::NetworkSettings({})) {
      if (input_.environment.contains(setting.name)) continue;
      const bool safe = setting.kind == network::SettingKind::kSafe;
      plan_.environment.push_back(
          {setting.name, safe ? setting.value : Concat("(", setting.value, ")"),
           safe ? setting.reason : Concat("advice, not set: ", setting.reason)});
    }
    for (const auto& [name, value] : input_.environment) {
      for (const std::string_view prefix : {"NCCL_", "GLOO_", "OMP_"}) {
        if (name.starts_with(prefix)) plan_.environment.push_back({name, value, "yours, kept"});
      }
    }
    for (const std::string& entry : options_.environment) {
      const std::size_t equal = entry.find('=');
      const std::string name = entry.substr(0, equal);
      const std::string value = equal == std::string::npos
                                    ? std::string(slurm::Lookup(input_.environment, name))
                                    : entry.substr(equal + 1);
      plan_.environment.push_back({name, value, "--env"});
      if (equal == std::string::npos && !input_.environment.contains(name)) {
        plan_.warnings.push_back(
            Concat("--env ", name, " passes nothing on: ", name, " is not set here"));
      }
    }
  }

  void Line(std::string name, std::string value, std::string reason) {
    plan_.lines.push_back({std::move(name), std::move(value), std::move(reason)});
  }

  const PlanInput& input_;
  const config::RunOptions& options_;
  Plan plan_;
};

}  // namespace

Duration BeatOf(Duration lease) { return std::min(kLongestBeat, lease / kBeatsInLease); }

Result<Plan> MakePlan(const PlanInput& input) { return Planner(input).Make(); }

protocol::Config ToConfig(const Plan& plan, const config::RunOptions& options) {
  protocol::Config config;
  config.version = Version();
  config.nodes = plan.nodes;
  config.min_nodes = plan.min_nodes;
  config.max_nodes = plan.max_nodes;
  config.workers_per_agent = plan.workers_per_node;
  config.form_timeout = options.form_timeout;
  config.last_call = options.last_call;
  config.wait_node = options.wait_node;
  config.beat = plan.beat;
  config.lease = plan.lease;
  config.stop_grace = options.stop_grace;
  config.can_requeue = plan.can_requeue;
  config.budgets = protocol::DefaultBudgets();
  return config;
}

}  // namespace muster::host
