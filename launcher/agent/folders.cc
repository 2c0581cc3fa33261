#include "launcher/agent/folders.h"

#include <unistd.h>

#include <filesystem>

#include "common/text.h"
#include "launcher/agent/files.h"
#include "launcher/agent/node_lock.h"

namespace muster::agent {
namespace {

// sun_path has 108 bytes with its end.
constexpr std::size_t kSocketPathMax = 107;
constexpr std::size_t kFolderCount = 6;

std::string Base(const Options& options, const Environment& environment) {
  if (!options.local_dir.empty()) return options.local_dir;
  for (const char* name : {"SLURM_TMPDIR", "TMPDIR"}) {
    const std::string folder = Lookup(environment, name);
    if (!folder.empty() && access(folder.c_str(), W_OK | X_OK) == 0) return folder;
  }
  return "/tmp";
}

}  // namespace

Result<Folders> MakeAgentFolders(const Options& options, const Environment& environment,
                                 const Place& place, int process) {
  const std::string base = Base(options, environment);
  Folders folders;
  folders.user = Concat(base, "/muster-", geteuid());
  // A node's name is Slurm's or muster's own and has no slash; the hash keeps the path short.
  folders.run = Concat(folders.user, "/", ShortHash(options.run_id), "-", place.node);
  folders.local = folders.run + "/local";
  folders.logs = folders.run + "/logs";
  folders.own = Concat(folders.run, "/agent-", place.step_id, ".", place.task_id, "-", process);
  MUSTER_RETURN_IF_ERROR(MakeFolders(base));
  // Another agent of the user that ends may remove the empty ones in between: try again.
  Status status;
  for (int tries = 0; tries < 100; ++tries) {
    for (const std::string* folder : {&folders.user, &folders.run, &folders.local, &folders.own}) {
      status = MakePrivateFolder(*folder);
      if (!status.ok()) break;
    }
    if (status.code() != StatusCode::kNotFound) break;
  }
  MUSTER_RETURN_IF_ERROR(status);
  folders.socket = folders.own + "/socket";
  if (folders.socket.size() > kSocketPathMax) {
    MUSTER_ASSIGN_OR_RETURN(const std::string user, UserFolder());
    folders.socket = Concat(user, "/", ShortHash(folders.own), ".socket");
  }
  return folders;
}

void RemoveAgentFolders(const Folders& folders) {
  std::error_code ignored;
  unlink(folders.socket.c_str());
  std::filesystem::remove_all(folders.own, ignored);
  for (const std::string* folder : {&folders.local, &folders.run, &folders.user}) {
    rmdir(folder->c_str());
  }
}

std::vector<std::string> ToArguments(const Folders& folders) {
  return {folders.user, folders.run, folders.local, folders.logs, folders.own, folders.socket};
}

Result<Folders> FoldersFromArguments(const std::vector<std::string>& arguments) {
  if (arguments.size() != kFolderCount) return InvalidArgument("not the agent's folders");
  return Folders{arguments[0], arguments[1], arguments[2],
                 arguments[3], arguments[4], arguments[5]};
}

}  // namespace muster::agent
