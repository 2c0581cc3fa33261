#pragma once

// What agents, host and daemon say to each other, as plain values. Converted to and from protobuf
// in conversion.h only; the core, the supervisor and the simulation know nothing but these.
//
// Downward orders are level-triggered: an Order says which state the agent is to be in, complete by
// itself, and is sent again whenever the agent attends. Receiving it twice is harmless.
// Upward messages are numbered (Upward::number) and kept by the agent until acknowledged.

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "common/status.h"
#include "common/time.h"
#include "rendezvousd/protocol/identity.h"

namespace muster::protocol {

// Why a round ended, or a run: each has its own budget (design: section 15).
enum class Cause : std::uint8_t {
  kNone = 0,
  kInitial = 1,     // the first round of an attempt
  kCode = 2,        // a worker failed by itself
  kMemory = 3,      // the memory limit's kill
  kNode = 4,        // a node, or the agents on it, is gone
  kNetwork = 5,     // peers cannot reach each other
  kHang = 6,        // no progress
  kPreemption = 7,  // Slurm takes the nodes for another job
  kTimeLimit = 8,   // the job's wall clock
  kOperator = 9,    // a person
  kAgent = 10,      // a supervisor or keeper died while its node lives
  kGrow = 11,       // more nodes are there than the round has
};
std::string_view ToString(Cause cause);  // "initial", "code", ...

// Who failed first, where and why: the sentence that log, status and exit share.
struct Blame {
  Cause cause = Cause::kNone;
  std::string node;            // empty if unknown
  std::int32_t rank = -1;      // -1: no single rank
  std::int32_t exit_code = 0;  // of the worker, as a shell shows it: 128 + signal for signals
  std::string text;            // "rank 3 on n2 was killed by signal 9 (SIGKILL)"
};

enum class Outcome : std::uint8_t {
  kNone = 0,
  kSucceeded = 1,
  kGoesOnLater = 2,
  kFailed = 3,
  kStopped = 4
};
std::string_view ToString(Outcome outcome);

// How a run ends.
struct Verdict {
  Outcome outcome = Outcome::kNone;
  std::int32_t exit_code = 0;  // proto/environment.h
  Blame blame;
};

// ---------------------------------------------------------------- agent -> daemon (Upward)

// One worker as its agent sees it, for hello and ready.
struct WorkerStatus {
  std::uint32_t local_rank = 0;  // counted on this agent, from 0
  Fence fence;                   // the round it was started or re-formed in
  std::int32_t pid = 0;
  bool alive = false;
  bool can_reform = false;      // it registered and can join the next round in place
  std::int32_t exit_code = 0;   // as a shell shows it, if not alive
  std::int64_t last_step = -1;  // last finished step it told, -1: none
};

// First on every stream. A new incarnation fences the old one of the same key.
struct Hello {
  std::string version;  // of the program; must equal the daemon's
  std::string run_id;
  std::uint32_t node_index = 0;  // Slurm's relative node id: the order of ranks
  std::uint32_t agents_on_node = 1;
  std::uint32_t slots = 1;  // workers it can start
  std::string address;      // numeric, on the job's network
  Fence fence;              // newest order it obeys; {attempt, 0} if none
  std::vector<WorkerStatus> workers;
  // Not empty: no worker can start on its node in this attempt (no program, another state folder).
  // One sentence, and the exit code of a run that cannot do without the node.
  std::string problem;
  std::int32_t problem_code = 0;
};

// The state that a prepare order asks for is reached: old workers quiesced or gone.
struct Ready {
  Fence fence;                        // of the prepare order
  std::vector<WorkerStatus> workers;  // those that will re-form in place
  std::string master_address;         // from the agent of tentative rank 0 only
  std::uint32_t master_port = 0;
  std::string problem;  // not empty: cannot; names pid, device and reason
};

struct WorkerExited {
  Fence fence;
  std::uint32_t local_rank = 0;
  std::int32_t pid = 0;
  std::int32_t exit_code = 0;  // as a shell shows it
  std::int32_t signal = 0;     // 0: exited
  Cause cause = Cause::kCode;  // kCode, kMemory, or kNetwork/kHang by its last lines
  std::string last_line;
};

// A worker's communicator failed: not a cause by itself, evidence that somebody else did.
struct WorkerBroken {
  Fence fence;
  std::uint32_t local_rank = 0;
  std::string reason;
};

// Not journalled: the newest is all that matters.
struct WorkerProgress {
  Fence fence;
  std::uint32_t local_rank = 0;
  std::uint8_t phase = 0;  // local::Phase
  std::int64_t step = -1;
};

struct WorkerRequest {
  Fence fence;
  std::uint32_t local_rank = 0;
  std::uint8_t kind = 0;  // local::RequestKind
  std::string reason;
};

// The workers of a close order are gone, with all that they started; the agent ends now. Without a
// close order: the agent was told to end from outside (TERM from Slurm), and says why.
struct Goodbye {
  std::string reason;
};

// Not numbered; answered at once with BeatAnswer.
struct Beat {
  std::uint64_t sequence = 0;
};

// What came of a Probe.
struct ProbeAnswer {
  std::uint64_t probe_id = 0;
  bool reachable = false;  // connected, or refused: somebody's kernel is alive there
  std::string text;
};

using UpwardBody = std::variant<Hello, Ready, WorkerExited, WorkerBroken, WorkerProgress,
                                WorkerRequest, Goodbye, Beat, ProbeAnswer>;
struct Upward {
  AgentId agent;
  std::uint64_t number = 0;  // grows by one for each kept message; 0: not kept (Hello, Beat, ...)
  UpwardBody body;
};

// ---------------------------------------------------------------- daemon -> agent (Downward)

// One agent's part of a world: O(1), whatever the world's size.
struct Assignment {
  std::uint32_t node_rank = 0;
  std::uint32_t node_count = 0;
  std::uint32_t first_rank = 0;        // rank of this agent's local worker 0
  std::uint32_t workers = 0;           // of this agent
  std::uint32_t first_local_rank = 0;  // > 0 where a node has several agents
  std::uint32_t local_world_size = 0;  // of the node
  std::uint32_t world_size = 0;
  std::uint32_t previous_world_size = 0;  // of the round before, 0: none
  std::uint32_t restart_count = 0;        // rounds before this one in this attempt
  std::string tasks_per_node;             // Slurm's form, "2(x3),1"
};

enum class OrderKind : std::uint8_t {
  kWait = 0,     // no round for you now: your workers of older rounds must end or quiesce
  kPrepare = 1,  // be ready for `fence`: old workers quiesced or gone, then Ready
  kRun = 2,      // `fence` runs: start workers, or re-form those that can
  kClose = 3,    // end all workers, then Goodbye; the verdict is final
};
std::string_view ToString(OrderKind kind);

struct Order {
  OrderKind kind = OrderKind::kWait;
  Fence fence;                 // kWait: the newest round that has ended
  Assignment assignment;       // kPrepare, kRun
  std::string master_address;  // kRun
  std::uint32_t master_port = 0;
  Duration deadline{};  // kPrepare: time left to say Ready; kClose: until KILL
  Blame blame;          // why the last round ended
  Verdict verdict;      // kClose
};

struct BeatAnswer {
  std::uint64_t sequence = 0;
  Fence fence;  // the round that runs
};

// All numbered messages up to `number` have been journalled: forget them.
struct Acknowledge {
  std::uint64_t number = 0;
};

// Try whether a machine's kernel answers at `address` (any port: refused counts), within `timeout`.
struct Probe {
  std::uint64_t probe_id = 0;
  std::string address;
  Duration timeout{};
};

using Downward = std::variant<Order, BeatAnswer, Acknowledge, Probe>;

// ---------------------------------------------------------------- keys and barriers (unary)

enum class KeyOperation : std::uint8_t { kSet = 0, kGet = 1, kWait = 2, kAdd = 3 };

struct KeyRequest {
  RequestId id;
  Fence fence;          // of the caller's round; checked for round keys
  bool of_run = false;  // true: the key outlives rounds (within the attempt)
  KeyOperation operation = KeyOperation::kGet;
  std::string key;
  std::string value;       // kSet
  std::int64_t delta = 0;  // kAdd
};

struct KeyAnswer {
  Status status;
  std::string value;        // kGet, kWait
  std::int64_t number = 0;  // kAdd: the sum
};

// All ranks of a round meet. An agent asks once for all its workers that have arrived.
struct BarrierRequest {
  RequestId id;
  Fence fence;
  std::string name;
  std::vector<std::uint32_t> ranks;
};

// ---------------------------------------------------------------- host <-> daemon (Host.Serve)

enum class WishKind : std::uint8_t {
  kDropNodes = 0,   // take these nodes out of the job, so that Slurm's later verdict is void
  kRequeue = 1,     // requeue the job, excluding `nodes`
  kFinish = 2,      // the run is over: end with the verdict
  kStartAgent = 3,  // the agents of these living nodes died: start new ones there
};

// Level-triggered: the daemon repeats the whole set of open wishes.
struct Wish {
  std::uint64_t id = 0;
  WishKind kind = WishKind::kFinish;
  std::vector<std::string> nodes;
  Verdict verdict;
  std::string reason;
};

enum class WishState : std::uint8_t { kPending = 0, kDone = 1, kRefused = 2 };
struct WishAnswer {
  std::uint64_t id = 0;
  WishState state = WishState::kPending;
  std::string reason;
};

// What the host knows about the job; each field replaces what was said before.
struct HostFacts {
  bool can_requeue = false;                 // a batch job with requeue allowed
  std::vector<std::string> dead_nodes;      // Slurm says DOWN or gone from the job
  std::vector<std::string> starting_nodes;  // the step is starting there
  std::string agents_step_ended;            // not empty: srun ended, with its reason
};

// A person or Slurm wants the run to end or change (also Operator's calls).
enum class OperatorAction : std::uint8_t { kStop = 0, kCancel = 1, kRestart = 2 };
struct OperatorRequest {
  OperatorAction action = OperatorAction::kCancel;
  std::string reason;
};

using HostUp = std::variant<HostFacts, WishAnswer, OperatorRequest>;

// ---------------------------------------------------------------- what people are shown

struct AgentView {
  AgentKey key;
  std::string state;  // "in round", "spare", "suspect since 3 s", "dead: ...", "expected"
  std::int32_t node_rank = -1;
  std::uint32_t workers = 0;
  std::int64_t last_step = -1;
};

struct RunView {
  std::string run_id;
  std::string phase;
  Fence fence;
  std::uint32_t world_size = 0;
  std::string waiting_for;  // one sentence; empty when nothing is waited for
  std::vector<AgentView> agents;
  Blame last_blame;
  Verdict verdict;
};

// One line of the run's history.
struct EventRecord {
  std::int64_t unix_ms = 0;  // stamped by the loop, not by the core
  std::string kind;          // "round started", "worker exited", ...: a closed list in the core
  Fence fence;
  std::string node;
  std::int32_t rank = -1;
  std::string text;
};

}  // namespace muster::protocol
