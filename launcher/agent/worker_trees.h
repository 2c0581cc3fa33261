#pragma once

// Which worker a process below the supervisor belongs to, also after its parents are gone.
//
// By descent from a worker's own process; an orphan (which comes back to the supervisor, a
// subreaper) by its session, else by the mark in its environment. What scrubbed all of that is
// nobody's: it is ended with the last worker, and at the latest with the agent.

#include <sys/types.h>

#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "launcher/agent/process_tree.h"
#include "launcher/agent/supervisor_machine.h"

namespace muster::agent {

struct WorkerProcess {
  WorkerId worker;
  std::string mark;  // its value of kWorkerMark
  bool alive = true;
};

struct WorkerTrees {
  std::map<WorkerId, std::vector<ProcessInfo>> trees;  // without zombies
  std::vector<ProcessInfo> strays;
};

// `workers` by the pid of their own process, those that ended included. `mark_of` reads the mark
// from a process's environment. Pure but for it.
WorkerTrees AttributeProcesses(const std::vector<ProcessInfo>& descendants,
                               const std::map<pid_t, WorkerProcess>& workers,
                               const std::function<std::string(pid_t)>& mark_of);

// The mark in /proc/PID/environ; "" if there is none or it cannot be read.
std::string ReadWorkerMark(pid_t pid);

}  // namespace muster::agent
