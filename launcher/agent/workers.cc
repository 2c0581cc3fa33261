#include "launcher/agent/workers.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "common/text.h"

namespace muster::agent {
namespace {

// A dying tree is looked at this often, less and less often the longer it takes.
constexpr Duration kTreePauseMin = std::chrono::milliseconds(5);
constexpr Duration kTreePauseMax = std::chrono::milliseconds(100);
// Room for what a worker prints while the loop is busy; the kernel's default is 64 KiB.
constexpr int kPipeBytes = 1 << 20;
// Reads of one pipe before other events get their turn.
constexpr int kReadsPerTurn = 4;

struct Pipe {
  Descriptor read;
  Descriptor write;
};

Result<Pipe> MakePipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return FromErrno(errno, "cannot make a pipe for a worker");
  Pipe result{Descriptor(ends[0]), Descriptor(ends[1])};
  fcntl(ends[0], F_SETFL, O_NONBLOCK);
  fcntl(ends[0], F_SETPIPE_SZ, kPipeBytes);  // refused above the user's limit, and then as it is
  return result;
}

// posix_spawn's parts, released however it ends.
class SpawnParts {
 public:
  SpawnParts() {
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
  }
  ~SpawnParts() {
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
  }
  SpawnParts(const SpawnParts&) = delete;
  SpawnParts& operator=(const SpawnParts&) = delete;
  posix_spawn_file_actions_t actions{};
  posix_spawnattr_t attributes{};
};

std::vector<char*> Pointers(std::vector<std::string>* texts) {
  std::vector<char*> pointers;
  for (std::string& text : *texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

}  // namespace

struct Workers::Process {
  WorkerId worker;
  pid_t pid = 0;
  bool alive = true;
  Descriptor pipes[2];
  EventLoop::Id watches[2] = {0, 0};
  bool watched = false;  // its tree, until it is gone
  int tree_signal = 0;
  std::string remains;
};

Workers::Workers(EventLoop* loop, WorkerEvents events) : loop_(loop), events_(std::move(events)) {}

Workers::~Workers() {
  for (auto& [worker, process] : processes_) StopDraining(*process);
  if (tree_timer_ != 0) loop_->CancelTimer(tree_timer_);
}

Result<pid_t> Workers::Start(const WorkerId& worker, ExecStage stage,
                             const Environment& environment, const std::string& mark) {
  stage.parent = getpid();
  std::vector<std::string> arguments = {"muster", "agent-exec"};
  for (std::string& argument : ToArguments(stage)) arguments.push_back(std::move(argument));
  std::vector<std::string> variables;
  for (const auto& [name, value] : environment) variables.push_back(Concat(name, "=", value));
  MUSTER_ASSIGN_OR_RETURN(Pipe out, MakePipe());
  MUSTER_ASSIGN_OR_RETURN(Pipe err, MakePipe());

  SpawnParts parts;
  posix_spawn_file_actions_addopen(&parts.actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&parts.actions, out.write.get(), 1);
  posix_spawn_file_actions_adddup2(&parts.actions, err.write.get(), 2);
  posix_spawnattr_setflags(&parts.attributes, POSIX_SPAWN_SETSID);
  pid_t pid = 0;
  const int error = posix_spawn(&pid, "/proc/self/exe", &parts.actions, &parts.attributes,
                                Pointers(&arguments).data(), Pointers(&variables).data());
  if (error != 0) {
    return FromErrno(error, Concat("cannot start worker ", worker.slot, " on ", stage.node));
  }
  auto process = std::make_unique<Process>();
  process->worker = worker;
  process->pid = pid;
  process->pipes[0] = std::move(out.read);
  process->pipes[1] = std::move(err.read);
  Process* const raw = process.get();
  for (const Stream stream : {Stream::kOut, Stream::kErr}) {
    const int index = static_cast<int>(stream);
    raw->watches[index] =
        loop_->WatchReadable(raw->pipes[index].get(), [this, raw, stream] { Drain(*raw, stream); });
  }
  known_[pid] = {worker, mark, true};
  processes_[worker] = std::move(process);
  return pid;
}

void Workers::Drain(Process& process, Stream stream) {
  const int index = static_cast<int>(stream);
  if (!process.pipes[index].valid()) return;
  std::array<char, 65536> buffer;
  for (int turn = 0; turn < kReadsPerTurn; ++turn) {
    const ssize_t count = read(process.pipes[index].get(), buffer.data(), buffer.size());
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (count <= 0) {
      if (process.watches[index] != 0) loop_->Unwatch(process.watches[index]);
      process.watches[index] = 0;
      process.pipes[index].Close();
      return;
    }
    events_.on_output(process.worker, stream,
                      std::string_view(buffer.data(), static_cast<std::size_t>(count)));
  }
}

void Workers::StopDraining(Process& process) {
  for (int index = 0; index < 2; ++index) {
    if (process.watches[index] != 0) loop_->Unwatch(process.watches[index]);
    process.watches[index] = 0;
    process.pipes[index].Close();
  }
}

Workers::Process* Workers::Find(const WorkerId& worker) {
  const auto found = processes_.find(worker);
  return found == processes_.end() ? nullptr : found->second.get();
}

void Workers::Reap() {
  while (true) {
    int status = 0;
    const pid_t pid = waitpid(-1, &status, WNOHANG);
    if (pid < 0 && errno == EINTR) continue;
    if (pid <= 0) return;
    const auto known = known_.find(pid);
    if (known == known_.end() || !known->second.alive) continue;  // an orphan
    known->second.alive = false;
    Process* const process = Find(known->second.worker);
    if (process == nullptr) continue;
    process->alive = false;
    // What it said last explains its end. A pipe holds no more than this many reads.
    for (int turn = 0; turn < kPipeBytes / (65536 * kReadsPerTurn) + 1; ++turn) {
      Drain(*process, Stream::kOut);
      Drain(*process, Stream::kErr);
    }
    const WorkerId worker = process->worker;
    events_.on_exit(worker, pid, status);
  }
}

WorkerTrees Workers::Trees() const {
  return AttributeProcesses(Descendants(getpid()), known_, ReadWorkerMark);
}

void Workers::Signal(const WorkerId& worker, int signal) {
  Process* const process = Find(worker);
  if (process == nullptr) return;
  WorkerTrees trees = Trees();
  const bool ends = signal == SIGTERM || signal == SIGKILL;
  for (const ProcessInfo& member : trees.trees[worker]) {
    SignalProcess(member, signal);
    if (signal == SIGTERM) SignalProcess(member, SIGCONT);  // a stopped process would never see it
  }
  if (!ends) return;
  process->tree_signal = signal;
  process->watched = true;
  tree_pause_ = kTreePauseMin;
  WatchTrees();
}

void Workers::WatchTrees() {
  if (tree_timer_ != 0) loop_->CancelTimer(tree_timer_);
  tree_timer_ = loop_->After(tree_pause_, [this] {
    tree_timer_ = 0;
    CheckTrees();
  });
}

void Workers::CheckTrees() {
  Reap();
  WorkerTrees trees = Trees();
  const bool last = std::none_of(processes_.begin(), processes_.end(), [](const auto& entry) {
    return entry.second->alive && !entry.second->watched;
  });
  bool more = false;
  std::vector<WorkerId> gone;
  std::vector<std::pair<WorkerId, std::string>> remaining;
  for (auto& [worker, process] : processes_) {
    if (!process->watched) continue;
    std::vector<ProcessInfo> members = trees.trees[worker];
    if (last) members.insert(members.end(), trees.strays.begin(), trees.strays.end());
    if (process->tree_signal == SIGKILL) {
      for (const ProcessInfo& member : members) SignalProcess(member, SIGKILL);
    }
    if (members.empty() && !process->alive) {
      gone.push_back(worker);
      continue;
    }
    more = true;
    std::string remains = DescribeProcesses(members);
    if (remains != process->remains) {
      process->remains = remains;
      remaining.emplace_back(worker, std::move(remains));
    }
  }
  for (const WorkerId& worker : gone) {
    Process* const process = Find(worker);
    StopDraining(*process);
    // The number may belong to a new worker meanwhile.
    const auto known = known_.find(process->pid);
    if (known != known_.end() && known->second.worker == worker) known_.erase(known);
    processes_.erase(worker);
  }
  if (more) {
    tree_pause_ = std::min(tree_pause_ * 5 / 4, kTreePauseMax);
    if (tree_timer_ == 0) WatchTrees();
  }
  for (const auto& [worker, text] : remaining) events_.on_tree_remains(worker, text);
  for (const WorkerId& worker : gone) events_.on_tree_gone(worker);
}

void Workers::SignalCatchers(int signal) {
  for (const auto& [worker, members] : Trees().trees) {
    for (const ProcessInfo& member : members) {
      if (CatchesSignal(member.pid, signal)) SignalProcess(member, signal);
    }
  }
}

std::optional<WorkerId> Workers::Identify(pid_t pid) const {
  const pid_t self = getpid();
  for (pid_t at = pid; at > 1 && at != self;) {
    const auto known = known_.find(at);
    if (known != known_.end() && known->second.alive) return known->second.worker;
    const std::optional<ProcessInfo> process = ReadProcess(at);
    if (!process) return std::nullopt;
    if (process->parent == self) {  // an orphan
      const WorkerTrees trees = AttributeProcesses({*process}, known_, ReadWorkerMark);
      return trees.trees.empty() ? std::nullopt
                                 : std::optional<WorkerId>(trees.trees.begin()->first);
    }
    at = process->parent;
  }
  return std::nullopt;
}

}  // namespace muster::agent
