#pragma once

// MiniWorld: muster-train processes under a fake agent: a launcher small enough for a test.
//
// Every process has its output in a file of its own in a temporary folder, which goes at the end
// unless the test has failed. Processes are ended by their id. Not thread-safe.

#include <sys/types.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/time.h"
#include "tests/unit/session/fake_agent.h"

namespace muster::test {

// Folders and files of one test.
class TestFolder {
 public:
  TestFolder();
  ~TestFolder();
  const std::filesystem::path& path() const { return path_; }
  // Text of some size with structure to learn.
  std::string Corpus();

 private:
  std::filesystem::path path_;
};

class MiniWorld {
 public:
  // `arguments` of every process; outputs go to `folder`.
  MiniWorld(int size, const TestFolder& folder, std::vector<std::string> arguments);
  ~MiniWorld();

  FakeAgent& agent() { return agent_; }
  int size() const { return static_cast<int>(processes_.size()); }
  pid_t pid(int rank) const { return processes_[static_cast<std::size_t>(rank)].pid; }

  // For this rank only; before its Spawn.
  void AddArguments(int rank, const std::vector<std::string>& arguments);
  // All processes, and the first round.
  void Start();
  void Signal(int rank, int number);
  void Spawn(int rank);
  // Kills `rank` and forms the world anew with a new process in its place, all others staying; what
  // an agent and its daemon do. The number of the new round.
  std::uint32_t KillAndReform(int rank, const std::string& cause = "code");
  void KillAll();

  // The exit codes (128 + signal) in the order of ranks, or nothing if one is still there.
  std::optional<std::vector<int>> WaitAll(Duration timeout);
  // Everything that process said, and all those before it on that rank.
  std::string Output(int rank) const;
  // "weights digest: ..." of rank 0, "" if it never said so.
  std::string Digest() const;

 private:
  struct Process {
    pid_t pid = -1;
    std::vector<std::string> more_arguments;
    std::optional<int> exit_code;
    std::vector<std::filesystem::path> outputs;
  };
  bool Reap(Process& process, bool wait);

  FakeAgent agent_;
  const std::filesystem::path folder_;
  const std::vector<std::string> arguments_;
  std::vector<Process> processes_;
};

std::string ReadText(const std::filesystem::path& path);

}  // namespace muster::test
