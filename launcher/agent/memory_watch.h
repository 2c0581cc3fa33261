#pragma once

// Whether the memory limit killed somebody: the oom_kill counters of the control groups that hold
// this process (v2: memory.events, v1: memory.oom_control), from the own one up to the root.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace muster::agent {

class MemoryWatch {
 public:
  // `proc` and `sys` are "/proc" and "/sys/fs/cgroup" but in tests.
  explicit MemoryWatch(const std::string& proc = "/proc",
                       const std::string& sys = "/sys/fs/cgroup");

  // True if a counter grew since the last call (or the start).
  bool KilledSinceLastLook();
  const std::vector<std::string>& files() const { return files_; }

 private:
  std::uint64_t Count() const;
  std::vector<std::string> files_;
  std::uint64_t last_ = 0;
};

}  // namespace muster::agent
