#include "launcher/slurm/allocation.h"

#include <algorithm>
#include <numeric>

#include "common/count_list.h"
#include "common/host_list.h"
#include "common/text.h"

namespace muster::slurm {
namespace {

// Slurm's numbers of steps that are not srun's (slurm.h).
constexpr std::uint32_t kInteractiveStep = 4294967290U;
constexpr std::uint32_t kBatchStep = 4294967291U;
constexpr std::uint32_t kExternStep = 4294967292U;
constexpr std::uint32_t kPendingStep = 4294967293U;
// 2^26 - 1 array tasks and job numbers fit; the numbers above are Slurm's marks.
constexpr std::uint32_t kMaxJobNumber = 0xfffffff0U;

constexpr std::string_view kAdvice =
    "; it is set by Slurm: if a script or a surrounding job set it, unset it";

Status Wrong(std::string_view name, std::string_view value, std::string_view reason) {
  return InvalidArgument(Concat(name, "=", Quote(value), " ", reason, kAdvice));
}

// Reads variables of one environment; the first error wins.
class Reader {
 public:
  explicit Reader(const EnvironmentMap& environment) : environment_(environment) {}

  std::string_view Text(std::string_view name) const {
    const std::string_view value = Lookup(environment_, name);
    // Slurm writes unset strings so (SLURM_NODE_ALIASES, for one).
    return value == "(null)" ? std::string_view() : value;
  }
  // The first that is set of a name and its old twin.
  std::string_view Pick(std::string_view name, std::string_view twin) const {
    return Text(name).empty() && !Text(twin).empty() ? twin : name;
  }

  template <typename T>
  Result<std::optional<T>> Number(std::string_view name, T low, T high) const {
    const std::string_view text = Text(name);
    if (text.empty()) return std::optional<T>();
    const Result<T> number = ParseInteger<T>(name, text, low, high);
    if (!number.ok()) return InvalidArgument(number.status().message() + std::string(kAdvice));
    return std::optional<T>(number.value());
  }

  // "4", "a100:4" or "a100:2,v100:2": how many in all.
  Result<std::optional<int>> Devices(std::string_view name) const {
    const std::string_view text = Text(name);
    if (text.empty()) return std::optional<int>();
    int total = 0;
    for (const std::string_view part : Split(text, ',')) {
      const std::string_view count = part.substr(part.rfind(':') + 1);  // npos + 1 is 0
      const Result<int> number = ParseInteger<int>(name, count, 0, kMaxCount);
      if (!number.ok()) return Wrong(name, text, "is no number of devices");
      total += number.value();
    }
    return std::optional<int>(total);
  }

  Result<std::vector<std::string>> Hosts(std::string_view name) const {
    const std::string_view text = Text(name);
    Result<std::vector<std::string>> hosts = ExpandHostList(text);
    if (!hosts.ok()) return hosts.status().With(name);
    std::vector<std::string> sorted = hosts.value();
    std::sort(sorted.begin(), sorted.end());
    const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
    if (twice != sorted.end()) return Wrong(name, text, Concat("names ", *twice, " twice"));
    return hosts;
  }

  // Counts of `nodes` nodes, each at least 1; empty if unset.
  Result<std::vector<int>> Counts(std::string_view name, std::size_t nodes) const {
    const std::string_view text = Text(name);
    if (text.empty()) return std::vector<int>();
    Result<std::vector<int>> counts = ExpandCountList(name, text);
    if (!counts.ok()) return InvalidArgument(counts.status().message() + std::string(kAdvice));
    if (counts.value().size() != nodes) {
      return Wrong(name, text,
                   Concat("counts ", counts.value().size(), " nodes, but there are ", nodes));
    }
    if (std::find(counts.value().begin(), counts.value().end(), 0) != counts.value().end()) {
      return Wrong(name, text, "has a node with nothing");
    }
    return counts;
  }

 private:
  const EnvironmentMap& environment_;
};

Result<JobId> ReadJobId(const Reader& reader) {
  JobId job;
  MUSTER_ASSIGN_OR_RETURN(
      const auto id,
      reader.Number<std::uint32_t>(reader.Pick("SLURM_JOB_ID", "SLURM_JOBID"), 1, kMaxJobNumber));
  job.id = id.value();
  MUSTER_ASSIGN_OR_RETURN(job.array_job,
                          reader.Number<std::uint32_t>("SLURM_ARRAY_JOB_ID", 1, kMaxJobNumber));
  MUSTER_ASSIGN_OR_RETURN(job.array_task,
                          reader.Number<std::uint32_t>("SLURM_ARRAY_TASK_ID", 0, kMaxJobNumber));
  if (job.array_job.has_value() != job.array_task.has_value()) {
    const std::string_view name =
        job.array_job.has_value() ? "SLURM_ARRAY_JOB_ID" : "SLURM_ARRAY_TASK_ID";
    return Wrong(name, reader.Text(name), "is set without its twin");
  }
  return job;
}

Result<std::optional<HetComponent>> ReadHet(const Reader& reader) {
  MUSTER_ASSIGN_OR_RETURN(const auto size, reader.Number<int>("SLURM_HET_SIZE", 1, 128));
  if (!size.has_value()) return std::optional<HetComponent>();
  HetComponent het{.size = *size, .offset = 0};
  const std::string_view own = reader.Text(reader.Pick("SLURM_JOB_ID", "SLURM_JOBID"));
  for (int i = 0; i < *size; ++i) {
    if (reader.Text(Concat("SLURM_JOB_ID_HET_GROUP_", i)) == own) het.offset = i;
  }
  return std::optional<HetComponent>(het);
}

// Which step, if any; empty for batch and shell.
Result<std::optional<std::uint32_t>> ReadPlace(const Reader& reader, Place& place) {
  const std::string_view name = reader.Pick("SLURM_STEP_ID", "SLURM_STEPID");
  MUSTER_ASSIGN_OR_RETURN(const auto step, reader.Number<std::uint32_t>(name, 0, 0xffffffffU));
  std::optional<std::uint32_t> none;
  if (!step.has_value()) {
    // slurmd names the node in all that it starts; salloc's own shell was not started by it.
    place = reader.Text("SLURMD_NODENAME").empty() ? Place::kShell : Place::kBatch;
    return none;
  }
  if (*step == kBatchStep) {
    place = Place::kBatch;
    return none;
  }
  if (*step == kInteractiveStep) {
    place = Place::kShell;
    return none;
  }
  if (*step == kExternStep || *step >= kPendingStep) {
    return Wrong(name, reader.Text(name), "is no step that runs programs");
  }
  place = Place::kStep;
  return step;
}

Status CheckCount(const Reader& reader, std::string_view name, std::size_t expected,
                  std::string_view what) {
  MUSTER_ASSIGN_OR_RETURN(const auto count,
                          reader.Number<int>(name, 1, static_cast<int>(kMaxHosts)));
  if (count.has_value() && static_cast<std::size_t>(*count) != expected) {
    return Wrong(name, reader.Text(name), Concat("does not fit the ", expected, " ", what));
  }
  return OkStatus();
}

Result<Step> ReadStep(const Reader& reader, std::uint32_t id, const Allocation& allocation,
                      bool explicit_hosts) {
  Step step;
  step.id = id;
  MUSTER_ASSIGN_OR_RETURN(step.nodes, reader.Hosts("SLURM_STEP_NODELIST"));
  if (step.nodes.empty()) {
    return InvalidArgument(Concat("SLURM_STEP_NODELIST is not set in step ", allocation.job.id, ".",
                                  id, "; start the program with srun, or unset SLURM_STEP_ID"));
  }
  for (const std::string& node : step.nodes) {
    if (!explicit_hosts && std::find(allocation.nodes.begin(), allocation.nodes.end(), node) ==
                               allocation.nodes.end()) {
      return Wrong("SLURM_STEP_NODELIST", reader.Text("SLURM_STEP_NODELIST"),
                   Concat("names ", node, ", which is no node of job ", allocation.job.Name()));
    }
  }
  MUSTER_RETURN_IF_ERROR(
      CheckCount(reader, "SLURM_STEP_NUM_NODES", step.nodes.size(), "nodes of the step"));
  MUSTER_ASSIGN_OR_RETURN(step.tasks_per_node,
                          reader.Counts("SLURM_STEP_TASKS_PER_NODE", step.nodes.size()));
  if (step.tasks_per_node.empty()) {
    return InvalidArgument(Concat("SLURM_STEP_TASKS_PER_NODE is not set in step ",
                                  allocation.job.id, ".", id,
                                  "; start the program with srun, or unset SLURM_STEP_ID"));
  }
  step.tasks = std::accumulate(step.tasks_per_node.begin(), step.tasks_per_node.end(), 0);
  MUSTER_ASSIGN_OR_RETURN(const auto tasks, reader.Number<int>("SLURM_STEP_NUM_TASKS", 1, 1 << 30));
  if (tasks.has_value() && *tasks != step.tasks) {
    return Wrong("SLURM_STEP_NUM_TASKS", reader.Text("SLURM_STEP_NUM_TASKS"),
                 Concat("does not fit SLURM_STEP_TASKS_PER_NODE, whose sum is ", step.tasks));
  }
  const int nodes = static_cast<int>(step.nodes.size());
  MUSTER_ASSIGN_OR_RETURN(const auto node_index, reader.Number<int>("SLURM_NODEID", 0, nodes - 1));
  MUSTER_ASSIGN_OR_RETURN(const auto rank, reader.Number<int>("SLURM_PROCID", 0, step.tasks - 1));
  if (!node_index.has_value() || !rank.has_value()) {
    return InvalidArgument(Concat(node_index.has_value() ? "SLURM_PROCID" : "SLURM_NODEID",
                                  " is not set in step ", allocation.job.id, ".", id,
                                  "; start the program with srun, or unset SLURM_STEP_ID"));
  }
  step.node_index = *node_index;
  step.rank = *rank;
  const int local = step.tasks_per_node[static_cast<std::size_t>(step.node_index)];
  MUSTER_ASSIGN_OR_RETURN(const auto local_rank, reader.Number<int>("SLURM_LOCALID", 0, local - 1));
  step.local_rank = local_rank.value_or(0);
  return step;
}

Status ReadNodes(const Reader& reader, std::string_view explicit_hosts, Allocation& out) {
  if (!explicit_hosts.empty()) {
    MUSTER_ASSIGN_OR_RETURN(out.nodes, ExpandHostList(explicit_hosts));
    return OkStatus();
  }
  const std::string_view list = reader.Pick("SLURM_JOB_NODELIST", "SLURM_NODELIST");
  MUSTER_ASSIGN_OR_RETURN(out.nodes, reader.Hosts(list));
  if (out.nodes.empty()) {
    return InvalidArgument(Concat("SLURM_JOB_NODELIST is not set in job ", out.job.Name(),
                                  "; give the hosts explicitly with --hosts host1,host2,..."));
  }
  return CheckCount(reader, "SLURM_JOB_NUM_NODES", out.nodes.size(),
                    Concat("nodes of ", list, "=", Quote(reader.Text(list))));
}

}  // namespace

std::string JobId::Name() const {
  if (array_job.has_value() && array_task.has_value()) {
    return Concat(*array_job, '_', *array_task);
  }
  return std::to_string(id);
}

std::string_view PlaceName(Place place) {
  switch (place) {
    case Place::kNoJob:
      return "no job";
    case Place::kBatch:
      return "batch script";
    case Place::kShell:
      return "salloc shell";
    case Place::kStep:
      return "srun step";
  }
  return "";
}

Result<Allocation> ReadAllocation(const EnvironmentMap& environment,
                                  std::string_view explicit_hosts) {
  const Reader reader(environment);
  Allocation out;
  if (reader.Text("SLURM_JOB_ID").empty() && reader.Text("SLURM_JOBID").empty()) return out;
  MUSTER_ASSIGN_OR_RETURN(out.job, ReadJobId(reader));
  MUSTER_ASSIGN_OR_RETURN(out.het, ReadHet(reader));
  MUSTER_ASSIGN_OR_RETURN(const std::optional<std::uint32_t> step_id, ReadPlace(reader, out.place));
  out.cluster = reader.Text("SLURM_CLUSTER_NAME");
  out.submit_dir = reader.Text("SLURM_SUBMIT_DIR");
  out.partition = reader.Text("SLURM_JOB_PARTITION");
  out.node_name = reader.Text("SLURMD_NODENAME");
  MUSTER_ASSIGN_OR_RETURN(const auto restarts,
                          reader.Number<std::uint32_t>("SLURM_RESTART_COUNT", 0, 0xffffU));
  out.restart_count = restarts.value_or(0);
  MUSTER_RETURN_IF_ERROR(ReadNodes(reader, explicit_hosts, out));
  if (explicit_hosts.empty()) {
    MUSTER_ASSIGN_OR_RETURN(out.cpus_per_node,
                            reader.Counts("SLURM_JOB_CPUS_PER_NODE", out.nodes.size()));
  }
  MUSTER_ASSIGN_OR_RETURN(out.gpus_on_node, reader.Number<int>("SLURM_GPUS_ON_NODE", 0, kMaxCount));
  if (!out.gpus_on_node) {
    // The shell of salloc knows only what was asked for.
    MUSTER_ASSIGN_OR_RETURN(out.gpus_on_node, reader.Devices("SLURM_GPUS_PER_NODE"));
  }
  if (step_id.has_value()) {
    MUSTER_ASSIGN_OR_RETURN(out.step, ReadStep(reader, *step_id, out, !explicit_hosts.empty()));
    return out;
  }
  if (explicit_hosts.empty()) {
    MUSTER_ASSIGN_OR_RETURN(out.tasks_per_node,
                            reader.Counts("SLURM_TASKS_PER_NODE", out.nodes.size()));
  }
  // SLURM_NTASKS is there only if tasks were asked for; --ntasks-per-node leaves its own.
  MUSTER_ASSIGN_OR_RETURN(const auto tasks, reader.Number<int>("SLURM_NTASKS", 1, 1 << 30));
  out.tasks_requested = tasks.has_value() || !reader.Text("SLURM_NTASKS_PER_NODE").empty();
  return out;
}

}  // namespace muster::slurm
