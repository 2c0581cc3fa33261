#pragma once

// The contract in names: MUSTER_* variables and exit codes. Plain C++ without dependency, so that
// the SPANK plugin, the programs, libmuster and the tests read the same list. The names are public
// (documented in muster-environment(7)) unless they stand under "between our own programs".

namespace muster::environment {

// --- what a worker finds (all of them set by the agent, in every round) --------------------------
inline constexpr char kRunId[] = "MUSTER_RUN_ID";  // stable over rounds, attempts, resubmissions
inline constexpr char kRunName[] = "MUSTER_RUN_NAME";            // --name, else run1, run2, ...
inline constexpr char kAttempt[] = "MUSTER_ATTEMPT";             // Slurm's restart count, from 0
inline constexpr char kRound[] = "MUSTER_ROUND";                 // the agreed world, from 1
inline constexpr char kRestartCause[] = "MUSTER_RESTART_CAUSE";  // initial, code, node, ...
inline constexpr char kPreviousWorldSize[] = "MUSTER_PREVIOUS_WORLD_SIZE";  // 0 in the first round
inline constexpr char kDeviceIndex[] = "MUSTER_DEVICE_INDEX";      // valid in the worker's own view
inline constexpr char kAgentSocket[] = "MUSTER_AGENT_SOCKET";      // proto/local.h is spoken there
inline constexpr char kStateDir[] = "MUSTER_STATE_DIR";            // shared folder of the run
inline constexpr char kLocalDir[] = "MUSTER_LOCAL_DIR";            // folder on this node's own disk
inline constexpr char kCheckpointDir[] = "MUSTER_CHECKPOINT_DIR";  // shared, for checkpoints
inline constexpr char kNoticeFile[] = "MUSTER_NOTICE_FILE";        // appears when a stop is coming
// The agent's own Slurm variables are kept for the worker as MUSTER_SLURM_<rest>.
inline constexpr char kSlurmPrefix[] = "MUSTER_SLURM_";

// --- what a user may set (twins of options are MUSTER_<OPTION>, made from the option table) ------
inline constexpr char kEnabled[] = "MUSTER";  // "0": the plugin leaves this step alone
inline constexpr char kLogLevel[] = "MUSTER_LOG";
inline constexpr char kTimeoutFactor[] = "MUSTER_TIMEOUT_FACTOR";  // scales real timers (tests)

// --- between our own programs --------------------------------------------------------------------
inline constexpr char kStep[] = "MUSTER_STEP";   // one of the two below
inline constexpr char kStepAgents[] = "agents";  // the step that `muster run` started
inline constexpr char kStepTasks[] = "tasks";    // srun --muster: each task becomes an agent
// srun --muster: the task's own program (its arguments are argv[1..]); muster started with this
// variable is `muster agent -- PROGRAM ARGUMENTS`.
inline constexpr char kTaskProgram[] = "MUSTER_TASK_PROGRAM";
// srun --muster: one sentence; muster prints it and ends with exit_code::kUsage.
inline constexpr char kTaskError[] = "MUSTER_TASK_ERROR";
inline constexpr char kEndpoint[] = "MUSTER_ENDPOINT";        // ADDRESS:PORT[,ADDRESS:PORT...]
inline constexpr char kJoinSecret[] = "MUSTER_JOIN_SECRET";   // erased by the agent at once
inline constexpr char kCertificate[] = "MUSTER_CERTIFICATE";  // PEM of the run, base64 of one line
inline constexpr char kAgentOptions[] = "MUSTER_AGENT_OPTIONS";  // JSON, launcher/agent/options.h

}  // namespace muster::environment

namespace muster::exit_code {

inline constexpr int kDone = 0;
inline constexpr int kUsage = 64;           // a bad option, value or environment
inline constexpr int kCouldNotForm = 69;    // the world never came together
inline constexpr int kGoesOnLater = 75;     // stopped; a requeue goes on from here
inline constexpr int kBudgetSpent = 121;    // restarted as often as allowed
inline constexpr int kDeterministic = 122;  // the same failure again without progress
inline constexpr int kStopped = 123;        // by an operator or scancel
inline constexpr int kTimeLimit = 124;      // time limit, and nothing to resume from
// Else the first failing worker's own code, 128 + signal for signals; a worker's code inside this
// range is given as 1, the true one stands in the verdict.

}  // namespace muster::exit_code
