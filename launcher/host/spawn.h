#pragma once

// Starting a child and learning of its end, for the host's loop: posix_spawn and a pidfd, never
// fork. A child gets exactly the descriptors it is given and default signals.

#include <sys/types.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "common/status.h"
#include "launcher/agent/event_loop.h"
#include "launcher/agent/files.h"

namespace muster::host {

struct SpawnRequest {
  std::vector<std::string> argv;         // the first is a path, unless there is one below
  std::string path = {};                 // of the program, where argv[0] is only its name
  std::vector<std::string> environment;  // NAME=VALUE
  std::vector<int> descriptors;          // inherited under the same number, beside 0, 1 and 2
  bool new_session = false;              // else a process group of its own: Ctrl-C is the host's
  bool close_stdin = true;               // from /dev/null
};

// A child process: signalled through its pidfd, reaped when its end was seen.
class Child {
 public:
  Child() = default;
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  // `on_exit` gets waitpid's status, once, on the loop's thread. REQUIRES !running().
  Status Start(agent::EventLoop* loop, const SpawnRequest& request,
               std::function<void(int)> on_exit);
  bool running() const { return pid_ > 0; }
  pid_t pid() const { return pid_; }
  // To the process alone, and to its whole group or session's first group.
  void Signal(int number) const;
  void SignalGroup(int number) const;

 private:
  void OnReadable();

  agent::EventLoop* loop_ = nullptr;
  agent::EventLoop::Id watch_ = 0;
  agent::Descriptor pidfd_;
  pid_t pid_ = 0;
  std::function<void(int)> on_exit_;
};

// "exit code 3", "signal 9 (Killed)"
std::string DescribeWaitStatus(int wait_status);
// As a shell shows it.
int ShellCode(int wait_status);

// A sealed anonymous file with these bytes, read from its start; not close-on-exec safe to pass on
// in SpawnRequest::descriptors.
Result<agent::Descriptor> MemoryFile(const char* name, std::string_view bytes);

}  // namespace muster::host
