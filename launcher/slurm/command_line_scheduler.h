#pragma once

// The scheduler through Slurm's command-line tools: works with every version and links nothing.
// One process a call; see run_command.h for how it is run and scontrol_output.h for what is read.
// Thread-safe.

#include <string>

#include "launcher/slurm/scheduler.h"

namespace muster::slurm {

class CommandLineScheduler final : public Scheduler {
 public:
  // `environment` is what the tools see (SLURM_CONF, SLURM_CLUSTERS, PATH, ...), less what changes
  // their output. `tool_directory` instead of PATH, if not empty.
  explicit CommandLineScheduler(EnvironmentMap environment, std::string tool_directory = {});

  Result<JobInfo> ReadJob(const JobId& job, Duration deadline) override;
  Result<std::vector<NodeInfo>> ReadNodes(const std::vector<std::string>& nodes,
                                          Duration deadline) override;
  Result<std::vector<NodeInfo>> ReadPartition(const std::string& partition,
                                              Duration deadline) override;
  Status DropNodes(const JobId& job, const std::vector<std::string>& living,
                   Duration deadline) override;
  Status AllowRequeue(const JobId& job, Duration deadline) override;
  Status Requeue(const JobId& job, RequeueMode mode, Duration deadline) override;
  Status UpdatePending(const JobId& job, const PendingUpdate& update, Duration deadline) override;
  Status Cancel(const JobId& job, Duration deadline) override;
  Status SetComment(const JobId& job, const std::string& comment, Duration deadline) override;
  Result<std::string> Submit(const SubmitRequest& request, Duration deadline) override;
  Result<std::string> EstimateStart(const SubmitRequest& request, Duration deadline) override;
  Result<std::string> BatchScript(const JobId& job, Duration deadline) override;

 private:
  struct Output {
    std::string output;
    std::string error_output;
  };
  // An error for every exit code but 0, as for all that RunCommand refuses.
  Result<Output> Run(const std::string& tool, std::vector<std::string> arguments,
                     Duration deadline) const;
  Result<Output> RunSbatch(const SubmitRequest& request, std::string_view first_option,
                           Duration deadline) const;
  Status Update(const JobId& job, std::vector<std::string> settings, Duration deadline) const;

  EnvironmentMap environment_;
  std::string tool_directory_;
};

}  // namespace muster::slurm
