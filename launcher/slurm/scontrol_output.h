#pragma once

// What Slurm's command-line tools print, as values. Pure; any bytes may come in.
//
// The texts are those of 22.05 (recorded) with the shapes of later versions. Values with blanks and
// "=" inside (job name, command line, comment, reason) are told from keys by the fixed order in
// which scontrol prints: what stands in a user's comment is never taken for Slurm's word.

#include <string_view>
#include <vector>

#include "common/status.h"
#include "launcher/slurm/scheduler.h"

namespace muster::slurm {

// The record of `job` among those of `scontrol -o show job`, which for an array prints all its
// tasks. Times must have been printed with TZ=UTC. NotFound if it is not there; DataLoss if a
// record lacks what every Slurm prints.
Result<JobInfo> ParseJobRecords(std::string_view output, const JobId& job);

// `scontrol -o show node LIST`.
Result<std::vector<NodeInfo>> ParseNodeRecords(std::string_view output);

// `sinfo -h -N -o "%N|%T|%E"`: one line a node, more if it is in several partitions.
Result<std::vector<NodeInfo>> ParseNodeLines(std::string_view output);

// "RUNNING", "NODE_FAIL"; in any case of letters.
JobState ParseJobState(std::string_view text);

// Fills state, usable, down and draining from "IDLE+DRAIN", "down*" and the like.
NodeInfo MakeNodeInfo(std::string_view name, std::string_view state);

// "2026-11-30T23:12:57", printed in UTC.
Result<WallTime> ParseSlurmTime(std::string_view text);

// "00:10:00", "1-02:03:04", "UNLIMITED" (nothing).
Result<std::optional<Duration>> ParseTimeLimit(std::string_view text);

}  // namespace muster::slurm
