#pragma once

// The agent: what `muster agent` does on a node. Three entry points of one program, because an
// agent is a chain of processes that start each other by executing their own file again:
//
//   muster agent [-- PROGRAM ARGUMENTS...]                 keeper      AgentMain
//   muster agent-supervisor ARGUMENTS...                   supervisor  SupervisorMain
//   muster agent-exec ARGUMENTS... -- PROGRAM ARGUMENTS... exec stage  ExecStageMain
//
// The caller dispatches on the first word and hands over what follows it (for `muster agent`: what
// follows "--"). The last two are internal: their arguments are made and read in this folder only.
// Each must be called before any thread exists and before gRPC is touched. All return the exit
// code.
//
// Environment of AgentMain: MUSTER_AGENT_OPTIONS (options.h), MUSTER_JOIN_SECRET (erased at once),
// Slurm's variables or MUSTER_LOCAL_NODE.

#include <string>
#include <vector>

namespace muster::agent {

// `program`, when not empty, is run instead of Options::program (the SPANK plugin's way in).
int AgentMain(std::vector<std::string> program);
int SupervisorMain(std::vector<std::string> arguments);
int ExecStageMain(std::vector<std::string> arguments);

}  // namespace muster::agent
