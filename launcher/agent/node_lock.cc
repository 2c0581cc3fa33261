#include "launcher/agent/node_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "common/text.h"

namespace muster::agent {
namespace {

// A holder that just ended removes its file between our open and our lock; twice is bad luck.
constexpr int kTriesMax = 100;

bool SameFile(int descriptor, const std::string& path) {
  struct stat held {};
  struct stat named {};
  return fstat(descriptor, &held) == 0 && stat(path.c_str(), &named) == 0 &&
         held.st_dev == named.st_dev && held.st_ino == named.st_ino;
}

}  // namespace

Result<std::unique_ptr<NodeLock>> NodeLock::Take(const std::string& folder,
                                                 const std::string& run_id,
                                                 const protocol::AgentKey& key) {
  const std::string name = Concat(run_id, " ", protocol::ToString(key));
  const std::string path = Concat(folder, "/agent-", ShortHash(name), ".lock");
  for (int tries = 0; tries < kTriesMax; ++tries) {
    MUSTER_RETURN_IF_ERROR(MakePrivateFolder(folder));
    Descriptor file(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!file.valid()) {
      if (errno == ENOENT) continue;  // the folder was removed as empty just now
      return FromErrno(errno, Concat("cannot open the lock ", path));
    }
    if (flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
      if (errno == EINTR) continue;
      if (errno != EWOULDBLOCK) return FromErrno(errno, Concat("cannot lock ", path));
      const std::string holder(Trim(ReadSmallFile(path, 64).value_or("")));
      return AlreadyExists(
          Concat("agent ", protocol::ToString(key), " of run ", run_id,
                 " is already alive on this node, as process ",
                 holder.empty() ? "(just starting)" : holder,
                 "; this second one ends. If it is a left-over, end that process"));
    }
    if (!SameFile(file.get(), path)) continue;
    if (ftruncate(file.get(), 0) != 0) return FromErrno(errno, Concat("cannot write ", path));
    MUSTER_RETURN_IF_ERROR(WriteAll(file.get(), Concat(getpid(), "\n")));
    return std::unique_ptr<NodeLock>(new NodeLock(folder, path, std::move(file)));
  }
  return Unavailable(Concat("the lock ", path, " was taken and removed again and again"));
}

NodeLock::~NodeLock() {
  unlink(path_.c_str());
  file_.Close();
  rmdir(folder_.c_str());  // only if empty
}

Result<std::string> UserFolder() {
  Status first;
  for (const char* base : {"/tmp", "/var/tmp", "/dev/shm"}) {
    const std::string folder = Concat(base, "/muster-", geteuid());
    const Status made = MakePrivateFolder(folder);
    if (made.ok()) return folder;
    if (first.ok()) first = made;
  }
  return first;
}

}  // namespace muster::agent
