#include "launcher/slurm/command_line_scheduler.h"

#include "common/host_list.h"
#include "common/text.h"
#include "launcher/slurm/run_command.h"
#include "launcher/slurm/scontrol_output.h"
#include "launcher/slurm/tool_error.h"

namespace muster::slurm {
namespace {

// With SLURM_JOBID set, scontrol writes slurm_job_J_resize.sh after a shrink; the others change
// what is printed or which jobs are meant.
constexpr const char* kDisturbing[] = {"SLURM_JOBID",      "SLURM_JOB_ID", "SLURM_TIME_FORMAT",
                                       "SINFO_FORMAT",     "SINFO_ALL",    "SINFO_PARTITION",
                                       "SINFO_SORT",       "SCONTROL_ALL", "SLURM_BITSTR_LEN",
                                       "SLURM_DEBUG_FLAGS"};

std::string Seconds(Duration duration) {
  return std::to_string(std::chrono::ceil<std::chrono::seconds>(duration).count());
}

}  // namespace

CommandLineScheduler::CommandLineScheduler(EnvironmentMap environment, std::string tool_directory)
    : environment_(std::move(environment)), tool_directory_(std::move(tool_directory)) {
  for (const char* name : kDisturbing) environment_.erase(name);
  // Times are printed in local time: in UTC no clock change can mislead us.
  environment_["TZ"] = "UTC";
  environment_["LC_ALL"] = "C";
}

Result<CommandLineScheduler::Output> CommandLineScheduler::Run(const std::string& tool,
                                                               std::vector<std::string> arguments,
                                                               Duration deadline) const {
  Command command;
  command.environment = environment_;
  command.deadline = deadline;
  MUSTER_ASSIGN_OR_RETURN(const std::string path, FindTool(tool, environment_, tool_directory_));
  command.arguments = {path};
  for (std::string& argument : arguments) command.arguments.push_back(std::move(argument));
  MUSTER_ASSIGN_OR_RETURN(CommandResult result, RunCommand(command));
  if (result.exit_code != 0) {
    // Some sentences ("Job 2_1 not found") go to stdout.
    return StatusFromTool(tool, result.exit_code,
                          result.error_output.empty() ? result.output : result.error_output);
  }
  return Output{std::move(result.output), std::move(result.error_output)};
}

Result<JobInfo> CommandLineScheduler::ReadJob(const JobId& job, Duration deadline) {
  MUSTER_ASSIGN_OR_RETURN(const Output printed,
                          Run("scontrol", {"-o", "show", "job", job.Name()}, deadline));
  return ParseJobRecords(printed.output, job);
}

Result<std::vector<NodeInfo>> CommandLineScheduler::ReadNodes(const std::vector<std::string>& nodes,
                                                              Duration deadline) {
  if (nodes.empty()) return std::vector<NodeInfo>();
  MUSTER_ASSIGN_OR_RETURN(
      const Output printed,
      Run("scontrol", {"-o", "show", "node", CompressHostList(nodes)}, deadline));
  return ParseNodeRecords(printed.output);
}

Result<std::vector<NodeInfo>> CommandLineScheduler::ReadPartition(const std::string& partition,
                                                                  Duration deadline) {
  // No -a: sinfo refuses it beside -p, which shows hidden partitions by itself.
  MUSTER_ASSIGN_OR_RETURN(const Output printed,
                          Run("sinfo", {"-h", "-N", "-p", partition, "-o", "%N|%T|%E"}, deadline));
  return ParseNodeLines(printed.output);
}

Status CommandLineScheduler::Update(const JobId& job, std::vector<std::string> settings,
                                    Duration deadline) const {
  std::vector<std::string> arguments = {"update", "JobId=" + job.Name()};
  for (std::string& setting : settings) arguments.push_back(std::move(setting));
  return Run("scontrol", std::move(arguments), deadline).status();
}

Status CommandLineScheduler::DropNodes(const JobId& job, const std::vector<std::string>& living,
                                       Duration deadline) {
  if (living.empty()) return InvalidArgument("a job cannot be left without nodes");
  return Update(job, {"NodeList=" + CompressHostList(living)}, deadline);
}

Status CommandLineScheduler::AllowRequeue(const JobId& job, Duration deadline) {
  return Update(job, {"Requeue=1"}, deadline);
}

Status CommandLineScheduler::Requeue(const JobId& job, RequeueMode mode, Duration deadline) {
  std::vector<std::string> arguments = {"requeue"};
  if (mode == RequeueMode::kIncomplete) arguments.emplace_back("Incomplete");
  arguments.push_back(job.Name());
  return Run("scontrol", std::move(arguments), deadline).status();
}

Status CommandLineScheduler::UpdatePending(const JobId& job, const PendingUpdate& update,
                                           Duration deadline) {
  std::vector<std::string> settings = {"ExcNodeList=" + CompressHostList(update.excluded_nodes)};
  if (update.start_in.has_value()) {
    settings.push_back("StartTime=now+" + Seconds(*update.start_in));
  }
  if (update.node_count.has_value()) {
    settings.push_back("NumNodes=" + std::to_string(*update.node_count));
  }
  return Update(job, std::move(settings), deadline);
}

Status CommandLineScheduler::Cancel(const JobId& job, Duration deadline) {
  return Run("scancel", {job.Name()}, deadline).status();
}

Status CommandLineScheduler::SetComment(const JobId& job, const std::string& comment,
                                        Duration deadline) {
  return Update(job, {"Comment=" + comment}, deadline);
}

Result<CommandLineScheduler::Output> CommandLineScheduler::RunSbatch(const SubmitRequest& request,
                                                                     std::string_view first_option,
                                                                     Duration deadline) const {
  MUSTER_ASSIGN_OR_RETURN(const std::string path,
                          FindTool("sbatch", request.environment, tool_directory_));
  Command command{.arguments = {path, std::string(first_option)},
                  .environment = request.environment,
                  .directory = request.directory,
                  .input = request.script,
                  .deadline = deadline};
  command.arguments.insert(command.arguments.end(), request.arguments.begin(),
                           request.arguments.end());
  MUSTER_ASSIGN_OR_RETURN(CommandResult result, RunCommand(command));
  if (result.exit_code != 0) {
    return StatusFromTool("sbatch", result.exit_code, result.error_output);
  }
  return Output{std::move(result.output), std::move(result.error_output)};
}

Result<std::string> CommandLineScheduler::Submit(const SubmitRequest& request, Duration deadline) {
  MUSTER_ASSIGN_OR_RETURN(const Output printed, RunSbatch(request, "--parsable", deadline));
  const std::string_view number = Trim(printed.output);
  const auto id = ParseInteger<std::uint32_t>("job number", number.substr(0, number.find(';')), 1);
  if (!id.ok()) {
    return DataLoss(Concat("sbatch accepted a job but printed ", Quote(printed.output),
                           " instead of its number; look with squeue --me"));
  }
  return std::string(number);
}

Result<std::string> CommandLineScheduler::EstimateStart(const SubmitRequest& request,
                                                        Duration deadline) {
  MUSTER_ASSIGN_OR_RETURN(const Output printed, RunSbatch(request, "--test-only", deadline));
  // "sbatch: Job 4 to start at 2026-11-30T23:31:20 using 8 processors on nodes n1 in partition p"
  std::string_view text = Trim(printed.error_output);
  if (const std::size_t at = text.rfind("to start at "); at != std::string_view::npos) {
    text.remove_prefix(at + 3);
    text = text.substr(0, text.find('\n'));
  }
  return std::string(text);
}

Result<std::string> CommandLineScheduler::BatchScript(const JobId& job, Duration deadline) {
  MUSTER_ASSIGN_OR_RETURN(Output printed,
                          Run("scontrol", {"write", "batch_script", job.Name(), "-"}, deadline));
  return std::move(printed.output);
}

}  // namespace muster::slurm
