#pragma once

// Where a run keeps what outlives it: BASE/NAME with spec, verdicts, operator's access, logs.
//
//   BASE                 --state-dir, else MUSTER_STATE_DIR, else .muster/JOB in the folder of
//                        submission (the current one without Slurm)
//   BASE/runs.json       register.h
//   BASE/NAME/spec.json             what the first attempt was told, and each later change
//   BASE/NAME/verdict-ATTEMPT.json  how an attempt ended: the daemon's word, or the host's where
//                                   the daemon could not write it
//   BASE/NAME/status.json, events-ATTEMPT.jsonl, handover-ATTEMPT.json   the daemon's
//   BASE/NAME/operator.json         endpoint, certificate and secret for people's commands (0600)
//   BASE/NAME/logs, checkpoints
//
// Folders are 0700. Used by the host and by `muster status`.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/status.h"
#include "launcher/host/register.h"
#include "launcher/slurm/allocation.h"
#include "rendezvousd/protocol/messages.h"

namespace muster::host {

// `given`: --state-dir, already with its twin. `folder`: the current one. `tag` names a run without
// a job, as in .muster/TAG.
std::string StateBase(const std::string& given, const slurm::Allocation& allocation,
                      const std::string& folder, const std::string& tag);

// Makes the folder with its parents and proves that it can be written: InvalidArgument names the
// folder, the reason and --state-dir.
Status PrepareFolder(const std::string& path);

// Writes a new token into the folder and gives it: agents look for it, each on its own node, since
// a folder of that name may be another one there. Those of earlier attempts are removed.
Result<std::string> WriteSharedToken(const std::string& folder);
void RemoveSharedToken(const std::string& folder);

struct RunFiles {
  std::string folder;
  std::string SpecFile() const { return folder + "/spec.json"; }
  std::string StatusFile() const { return folder + "/status.json"; }
  std::string OperatorFile() const { return folder + "/operator.json"; }
  std::string VerdictFile(std::uint32_t attempt) const;
};

Status WriteVerdict(const RunFiles& files, std::uint32_t attempt, const protocol::Verdict& verdict);
struct PastVerdict {
  std::uint32_t attempt = 0;
  protocol::Verdict verdict;
};
// The newest attempt's verdict; nothing where there is none. A damaged file is DataLoss.
Result<std::optional<PastVerdict>> NewestVerdict(const RunFiles& files);

struct OperatorAccess {
  std::vector<std::string> endpoints;
  std::string certificate;
  std::string secret;
  std::string host;
  int pid = 0;
  std::uint32_t attempt = 0;
};
Status WriteOperatorAccess(const RunFiles& files, const OperatorAccess& access);
Result<OperatorAccess> ReadOperatorAccess(const RunFiles& files);

// The user's own --exclude, as the job had it before any requeue of ours added to it: written once,
// kept for the job's later starts.
Status KeepUserExcluded(const std::string& base, const std::string& job,
                        const std::vector<std::string>& nodes);
std::optional<std::vector<std::string>> ReadUserExcluded(const std::string& base,
                                                         const std::string& job);

// ~/.local/state/muster/jobs (XDG_STATE_HOME): one file for each job, with the base folder inside,
// so that commands work from anywhere. Failing to write it never stops a run.
std::string PointerFolder(const slurm::EnvironmentMap& environment);
Status WritePointer(const std::string& pointer_folder, const std::string& job,
                    const std::string& base);

}  // namespace muster::host
