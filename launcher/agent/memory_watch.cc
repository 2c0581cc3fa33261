#include "launcher/agent/memory_watch.h"

#include <unistd.h>

#include "common/text.h"
#include "launcher/agent/files.h"

namespace muster::agent {

MemoryWatch::MemoryWatch(const std::string& proc, const std::string& sys) {
  const std::string groups = ReadSmallFile(proc + "/self/cgroup").value_or("");
  for (const std::string_view line : Split(groups, '\n')) {
    const std::vector<std::string_view> parts = Split(line, ':');
    if (parts.size() < 3) continue;
    const bool second = parts[0] == "0" && parts[1].empty();
    bool memory = false;
    for (const std::string_view controller : Split(parts[1], ',')) {
      memory = memory || controller == "memory";
    }
    if (!second && !memory) continue;
    const std::string root = second ? sys : sys + "/memory";
    const std::string file = second ? "/memory.events" : "/memory.oom_control";
    std::string group(parts[2]);
    // The job's limit may stand on any group above the own one; the root has none.
    while (group.size() > 1) {
      const std::string path = root + group + file;
      if (access(path.c_str(), R_OK) == 0) files_.push_back(path);
      group.resize(group.rfind('/'));
      if (group.empty()) break;
    }
  }
  last_ = Count();
}

std::uint64_t MemoryWatch::Count() const {
  std::uint64_t sum = 0;
  for (const std::string& path : files_) {
    const std::string text = ReadSmallFile(path).value_or("");
    for (const std::string_view line : Split(text, '\n')) {
      if (!line.starts_with("oom_kill ")) continue;
      sum += ParseInteger<std::uint64_t>("oom_kill", Trim(line.substr(9))).value_or(0);
    }
  }
  return sum;
}

bool MemoryWatch::KilledSinceLastLook() {
  const std::uint64_t now = Count();
  const bool grew = now > last_;
  last_ = now;
  return grew;
}

}  // namespace muster::agent
