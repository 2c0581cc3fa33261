#pragma once

// The workers' output as the agents keep it: one log for each attempt, round and rank, in worlds
// above 64 ranks for each attempt, round and agent (launcher/agent/output.h), each in one file or
// in several (bounded_log.h).
//
// Files in, values out; a file that vanishes while it is read counts as empty.

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace muster::cli {

struct LogFile {
  std::uint32_t attempt = 0;
  std::uint32_t round = 0;
  int rank = -1;                   // -1: of an agent, with ranks in front of its lines
  std::string agent;               // "n3" or "n3.task-2" then
  std::string path;                // of its head
  std::vector<std::string> parts;  // in order; the head is the first where it is there
  std::uint64_t bytes = 0;
};

// What --log-dir said when the run was first started, else logs in the run's folder.
std::string LogFolder(const std::string& run_folder);
// By attempt, round, rank and agent.
std::vector<LogFile> ListLogs(const std::string& log_folder);
// Those in which the rank's lines are. An agent's log is one of them if it has such a line.
std::vector<LogFile> LogsOfRank(const std::vector<LogFile>& logs, int rank);

// How far each file has been read.
using Offsets = std::map<std::string, std::uint64_t>;
// Lines from the offsets on, which are moved; with a rank, of an agent's log only that rank's,
// without what stands in front. A last line without its end waits for it unless `to_the_end`.
void ReadLog(const LogFile& log, int rank, bool to_the_end, Offsets* offsets,
             const std::function<void(std::string_view)>& sink);
// The newest lines that are not empty, printable, the oldest first: what stands in the last 64 KiB.
std::vector<std::string> LastLines(const LogFile& log, std::size_t count, int rank = -1);

// "17 B", "3.2 KiB", "56.0 MiB".
std::string Size(std::uint64_t bytes);

}  // namespace muster::cli
