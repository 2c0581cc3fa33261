#pragma once

// A real rendezvousd for tests: started on a socket that the test has bound and keeps, as the host
// does. Everything is in a temporary folder that goes with the object.

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "rendezvousd/client/client.h"
#include "rendezvousd/client/credentials.h"
#include "rendezvousd/protocol/start_options.h"
#include "tests/support/temporary_folder.h"

namespace muster::testing {

class DaemonProcess {
 public:
  // `nodes` are expected, one agent each.
  explicit DaemonProcess(const std::vector<std::string>& nodes);
  // Kills a daemon that still runs.
  ~DaemonProcess();
  DaemonProcess(const DaemonProcess&) = delete;
  DaemonProcess& operator=(const DaemonProcess&) = delete;

  // May be changed before Start.
  protocol::StartOptions options;
  std::vector<std::string> wrapper;  // a program and arguments before rendezvousd
  std::string program;               // rendezvousd as the wrapper finds it

  void Start();
  // Sends the signal and waits; gives the exit code, or 128 + signal.
  int Kill(int signal);
  // Waits for it to end by itself; -1 after `limit`.
  int Wait(Duration limit);
  pid_t pid() const { return pid_; }

  client::Options ClientOptions(const std::string& secret) const;
  std::unique_ptr<client::Client> Join() const;     // with the join secret
  std::unique_ptr<client::Client> Operate() const;  // with the operator's
  std::string StateFile(const std::string& name) const;
  const std::string& folder() const { return folder_.path(); }

 private:
  TemporaryFolder folder_;
  client::RunCredentials credentials_;
  std::string target_;
  pid_t pid_ = -1;
};

// The version that rendezvousd was built as.
std::string Version();

}  // namespace muster::testing
