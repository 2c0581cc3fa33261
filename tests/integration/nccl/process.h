#pragma once

// A child process whose output is read, killed at the end if it still runs.

#include <sys/types.h>

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace muster::test {

class Process {
 public:
  // `environment` on top of this process's.
  Process(const std::vector<std::string>& arguments,
          const std::map<std::string, std::string>& environment);
  ~Process();
  Process(Process&& other) noexcept;
  Process& operator=(Process&&) = delete;

  pid_t pid() const { return pid_; }
  void Signal(int signal) const;
  // The exit code, or minus the signal; nothing if it still runs after `timeout`.
  std::optional<int> Wait(std::chrono::milliseconds timeout);
  // Waits for a line that begins with `word`; the rest of that line.
  std::optional<std::string> WaitForLine(const std::string& word,
                                         std::chrono::milliseconds timeout);
  // All that it has written so far.
  std::string output();

 private:
  void Read(int timeout_ms);
  pid_t pid_ = -1;
  int pipe_ = -1;
  std::string output_;
  std::optional<int> code_;
};

}  // namespace muster::test
