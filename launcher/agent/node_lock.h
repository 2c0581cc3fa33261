#pragma once

// One living agent per uid, run, node, step and task: the second is refused here, by name, before
// it can fence the first at the daemon.
//
// A lock file in a folder of the user's own (0700) under /tmp, held by flock: the kernel lets go of
// it when its holder dies, however it dies. Used by the keeper.

#include <memory>
#include <string>

#include "common/status.h"
#include "launcher/agent/files.h"
#include "rendezvousd/protocol/identity.h"

namespace muster::agent {

class NodeLock {
 public:
  // `folder` is made if need be. AlreadyExists names the process that holds the lock.
  static Result<std::unique_ptr<NodeLock>> Take(const std::string& folder,
                                                const std::string& run_id,
                                                const protocol::AgentKey& key);
  // Removes the file while it is still held, and the folder if it is empty.
  ~NodeLock();

 private:
  NodeLock(std::string folder, std::string path, Descriptor file)
      : folder_(std::move(folder)), path_(std::move(path)), file_(std::move(file)) {}

  std::string folder_;
  std::string path_;
  Descriptor file_;
};

// The first of /tmp, /var/tmp and /dev/shm where the user can have a folder of his own:
// "/tmp/muster-UID". Made if need be.
Result<std::string> UserFolder();

}  // namespace muster::agent
