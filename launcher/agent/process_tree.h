#pragma once

// The processes below one process, and ending them: nothing else is ever touched.
//
// An agent is a subreaper, so a process that forks twice and calls setsid comes back as its child
// and is found here too. Every signal goes through a pidfd whose process was checked to be the one
// that was found (start time), so a number that Linux has given to a stranger meanwhile is safe.
//
// Single-threaded use; needs /proc of the own pid namespace.

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "common/time.h"

namespace muster::agent {

struct ProcessInfo {
  pid_t pid = 0;
  pid_t parent = 0;
  pid_t session = 0;
  char state = '?';
  unsigned long long start_time = 0;  // clock ticks after boot
  std::string name;                   // comm
  bool alive() const { return state != 'Z' && state != 'X'; }
};

std::optional<ProcessInfo> ReadProcess(pid_t pid);
// From the text of /proc/PID/stat; names may hold blanks and brackets. Nothing for other text.
std::optional<ProcessInfo> ParseProcessStat(const std::string& text);

// Everything below `root`, itself excluded, parents before children, zombies included.
std::vector<ProcessInfo> Descendants(pid_t root);

// False if that very process is gone.
bool SignalProcess(const ProcessInfo& process, int signal);

// True if the process has a handler for the signal (SigCgt). An unhandled USR1 kills what it was
// meant to save, so notices go only to those that catch them.
bool CatchesSignal(pid_t pid, int signal);

// KILL to all below `root` again and again until none is left that lives, at most for `limit`.
// Children of the caller are reaped. Returns those that remain.
std::vector<ProcessInfo> KillDescendants(pid_t root, Duration limit);

// "1234 (python, state D), 1235 (sh, state S) and 3 more"
std::string DescribeProcesses(const std::vector<ProcessInfo>& processes);

}  // namespace muster::agent
