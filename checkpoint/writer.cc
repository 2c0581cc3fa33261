#include "checkpoint/writer.h"

#include <sys/stat.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "checkpoint/folder.h"
#include "checkpoint/names.h"
#include "common/text.h"

namespace muster::checkpoint {

namespace {

// A piece that stays in the cache between its digest and its copy to the system.
constexpr std::size_t kChunkBytes = std::size_t{1} << 20;

std::string Advice(const Status& status) {
  if (status.code() == StatusCode::kResourceExhausted) {
    return "; free space or keep fewer checkpoints; training can go on, older entries are "
           "untouched";
  }
  return "; older entries are untouched";
}

Status WriteAll(FileOperations& files, int descriptor, const std::string& path,
                std::span<const std::byte> bytes, std::uint64_t done, std::uint64_t total) {
  while (!bytes.empty()) {
    const auto written = files.Write(descriptor, path, bytes);
    if (!written.ok()) {
      const Status& status = written.status();
      return Status(status.code(), Concat(status.message(), ", after ", done, " of ", total,
                                          " bytes", Advice(status)));
    }
    done += *written;
    bytes = bytes.subspan(*written);
  }
  return OkStatus();
}

// Closes on every way out; what matters has been made durable before.
class OpenFile {
 public:
  OpenFile(FileOperations& files, std::string path, int descriptor)
      : files_(files), path_(std::move(path)), descriptor_(descriptor) {}
  ~OpenFile() {
    if (descriptor_ >= 0) (void)files_.CloseFile(descriptor_, path_);
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  int descriptor() const { return descriptor_; }
  Status SyncAndClose() {
    const Status synced = files_.SyncFile(descriptor_, path_);
    const Status closed = files_.CloseFile(std::exchange(descriptor_, -1), path_);
    const Status& status = synced.ok() ? closed : synced;
    return status.ok() ? status : Status(status.code(), status.message() + Advice(status));
  }

 private:
  FileOperations& files_;
  const std::string path_;
  int descriptor_;
};

// Offsets without gaps, and the sources' bytes as few long spans: tensors that lie side by side in
// memory are written as one.
Result<std::vector<std::span<const std::byte>>> Arrange(const ShardSource& shard,
                                                        ShardRecord& record) {
  std::vector<std::span<const std::byte>> spans;
  for (const TensorSource& source : shard.tensors) {
    if (source.data.size() != source.record.bytes()) {
      return InvalidArgument(Concat("tensor ", source.record.name, " of shard ", shard.name,
                                    " comes with ", source.data.size(), " bytes instead of ",
                                    source.record.bytes()));
    }
    record.tensors.push_back(source.record);
    record.tensors.back().offset = record.bytes;
    record.bytes += source.data.size();
    if (source.data.empty()) continue;
    if (!spans.empty() && spans.back().data() + spans.back().size() == source.data.data()) {
      spans.back() = {spans.back().data(), spans.back().size() + source.data.size()};
    } else {
      spans.push_back(source.data);
    }
  }
  return spans;
}

Status WriteManifest(FileOperations& files, const std::string& temporary,
                     const Manifest& manifest) {
  MUSTER_ASSIGN_OR_RETURN(const std::string text, SerializeManifest(manifest));
  const std::string path = Concat(temporary, "/", kManifestName);
  MUSTER_ASSIGN_OR_RETURN(const int descriptor, files.CreateFile(path));
  OpenFile file(files, path, descriptor);
  MUSTER_RETURN_IF_ERROR(
      WriteAll(files, descriptor, path, std::as_bytes(std::span(text)), 0, text.size()));
  return file.SyncAndClose();
}

Status CheckShardFiles(const std::string& temporary, const Manifest& manifest) {
  for (const ShardRecord& shard : manifest.shards) {
    const std::string path = Concat(temporary, "/", shard.name);
    struct stat info {};
    if (lstat(path.c_str(), &info) != 0) return FromErrno(errno, "cannot commit without " + path);
    if (!S_ISREG(info.st_mode) || static_cast<std::uint64_t>(info.st_size) != shard.bytes) {
      return DataLoss(Concat("cannot commit: ", path, " has ", info.st_size, " bytes instead of ",
                             shard.bytes));
    }
  }
  return OkStatus();
}

// Moves a damaged entry of this run out of the way. A good one stays, and so does whatever cannot
// be judged: another run's, a newer version's, one that the file system does not give us now.
Status ClearPlace(FileOperations& files, const std::string& folder, const std::string& entry,
                  const Manifest& manifest) {
  struct stat info {};
  if (lstat(entry.c_str(), &info) != 0) {
    return errno == ENOENT ? OkStatus() : FromErrno(errno, "cannot look at " + entry);
  }
  const auto there = ReadManifest(entry);
  if (there.ok() && there->run != manifest.run) {
    return FailedPrecondition(Concat(entry, " belongs to run ", Quote(there->run),
                                     ": nothing is saved for run ", Quote(manifest.run),
                                     " at step ", manifest.step,
                                     "; give each run a checkpoint folder of its own"));
  }
  const Status status = there.ok() ? VerifyEntry(entry).status() : there.status();
  if (status.ok()) {
    return AlreadyExists(
        Concat("there is a good checkpoint of step ", manifest.step, " at ", entry, "; it stays"));
  }
  // NotFound: it has no manifest, or no shard that the manifest names.
  if (status.code() != StatusCode::kDataLoss && status.code() != StatusCode::kNotFound) {
    return status.With("the place of the checkpoint is taken");
  }
  MUSTER_ASSIGN_OR_RETURN(const std::string name,
                          MakeLeftoverName(LeftoverKind::kTrash, manifest.run, manifest.step));
  return files.Rename(entry, Concat(folder, "/", name));
}

Result<std::string> FillEntry(FileOperations& files, const std::string& folder,
                              const std::string& temporary, Manifest manifest,
                              std::span<const ShardSource> shards) {
  manifest.shards.clear();
  for (const ShardSource& shard : shards) {
    MUSTER_ASSIGN_OR_RETURN(ShardRecord record, WriteShard(files, temporary, shard));
    manifest.shards.push_back(std::move(record));
  }
  return CommitEntry(files, folder, temporary, manifest);
}

}  // namespace

Result<std::string> CreateTemporary(FileOperations& files, const std::string& folder,
                                    std::string_view run, std::uint64_t step) {
  MUSTER_ASSIGN_OR_RETURN(const std::string name,
                          MakeLeftoverName(LeftoverKind::kTemporary, run, step));
  std::string path = Concat(folder, "/", name);
  MUSTER_RETURN_IF_ERROR(files.MakeFolder(path));
  return path;
}

Result<ShardRecord> WriteShard(FileOperations& files, const std::string& temporary,
                               const ShardSource& shard) {
  ShardRecord record{.name = shard.name, .bytes = 0, .digest = {}, .tensors = {}};
  MUSTER_ASSIGN_OR_RETURN(const auto spans, Arrange(shard, record));
  const std::string path = Concat(temporary, "/", shard.name);
  MUSTER_ASSIGN_OR_RETURN(const int descriptor, files.CreateFile(path));
  OpenFile file(files, path, descriptor);
  DigestStream digest;
  std::uint64_t done = 0;
  for (std::span<const std::byte> rest : spans) {
    while (!rest.empty()) {
      const auto chunk = rest.first(std::min(kChunkBytes, rest.size()));
      digest.Update(chunk);
      MUSTER_RETURN_IF_ERROR(WriteAll(files, descriptor, path, chunk, done, record.bytes));
      done += chunk.size();
      rest = rest.subspan(chunk.size());
    }
  }
  MUSTER_RETURN_IF_ERROR(file.SyncAndClose());
  record.digest = digest.Value();
  return record;
}

Result<std::string> CommitEntry(FileOperations& files, const std::string& folder,
                                const std::string& temporary, const Manifest& manifest) {
  MUSTER_RETURN_IF_ERROR(CheckShardFiles(temporary, manifest));
  MUSTER_RETURN_IF_ERROR(WriteManifest(files, temporary, manifest));
  MUSTER_RETURN_IF_ERROR(files.SyncFolder(temporary));
  std::string entry = Concat(folder, "/", EntryName(manifest.step));
  MUSTER_RETURN_IF_ERROR(ClearPlace(files, folder, entry, manifest));
  MUSTER_RETURN_IF_ERROR(files.Rename(temporary, entry));
  MUSTER_RETURN_IF_ERROR(files.SyncFolder(folder).With(
      "the checkpoint is complete, but may not outlive a power cut; prune nothing for it"));
  return entry;
}

Status Abandon(FileOperations& files, const std::string& temporary) {
  return RemoveFolderAndFiles(files, temporary);
}

Result<std::string> WriteEntry(FileOperations& files, const std::string& folder, Manifest manifest,
                               std::span<const ShardSource> shards) {
  const std::string context =
      Concat("checkpoint of step ", manifest.step, " of run ", manifest.run);
  const auto temporary = CreateTemporary(files, folder, manifest.run, manifest.step);
  if (!temporary.ok()) return temporary.status().With(context);
  auto entry = FillEntry(files, folder, *temporary, std::move(manifest), shards);
  if (entry.ok()) return entry;
  // Unless it was renamed already: then it is an entry, though perhaps not a durable one.
  struct stat info {};
  if (lstat(temporary->c_str(), &info) == 0) (void)Abandon(files, *temporary);
  return entry.status().With(context);
}

Status CheckSpace(const std::string& folder, std::uint64_t bytes) {
  struct statvfs info {};
  if (statvfs(folder.c_str(), &info) != 0) return FromErrno(errno, "cannot ask about " + folder);
  const std::uint64_t free = static_cast<std::uint64_t>(info.f_bavail) * info.f_frsize;
  if (free >= bytes) return OkStatus();
  return Status(StatusCode::kResourceExhausted,
                Concat(folder, " has ", free, " bytes free, a checkpoint needs ", bytes,
                       "; free space or keep fewer checkpoints"));
}

}  // namespace muster::checkpoint
