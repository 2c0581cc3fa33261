#include "checkpoint/folder.h"

#include <dirent.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <memory>

#include "checkpoint/names.h"
#include "checkpoint/reader.h"
#include "common/text.h"

namespace muster::checkpoint {

namespace {

// How many skipped entries an error spells out; the rest are counted.
constexpr std::size_t kNamedMax = 3;

Result<std::vector<std::string>> NamesIn(const std::string& folder) {
  struct Close {
    void operator()(DIR* stream) const { closedir(stream); }
  };
  const std::unique_ptr<DIR, Close> stream(opendir(folder.c_str()));
  if (stream == nullptr) return FromErrno(errno, "cannot list folder " + folder);
  std::vector<std::string> names;
  for (;;) {
    errno = 0;
    const dirent* item = readdir(stream.get());
    if (item == nullptr) break;
    const std::string_view name = item->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  if (errno != 0) return FromErrno(errno, "cannot list folder " + folder);
  std::sort(names.begin(), names.end());
  return names;
}

bool IsFolder(const std::string& path) {
  struct stat info {};
  return lstat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

Status CheckSize(const std::string& path, std::uint64_t bytes) {
  struct stat info {};
  if (lstat(path.c_str(), &info) != 0) {
    return errno == ENOENT ? DataLoss(path + " is missing")
                           : FromErrno(errno, "cannot look at " + path);
  }
  if (!S_ISREG(info.st_mode)) return DataLoss(path + " is not a regular file");
  if (static_cast<std::uint64_t>(info.st_size) == bytes) return OkStatus();
  return DataLoss(Concat(path, " has ", info.st_size, " bytes instead of ", bytes));
}

Status CheckShards(const std::string& entry, const Manifest& manifest, VerifyDepth depth) {
  // Sizes first: they cost nothing, and most damage is a file cut short.
  for (const ShardRecord& shard : manifest.shards) {
    MUSTER_RETURN_IF_ERROR(CheckSize(Concat(entry, "/", shard.name), shard.bytes));
  }
  if (depth == VerifyDepth::kSizes) return OkStatus();
  for (const ShardRecord& shard : manifest.shards) {
    MUSTER_RETURN_IF_ERROR(CheckFile(Concat(entry, "/", shard.name), shard.bytes, shard.digest));
  }
  return OkStatus();
}

Status BelongsToAnother(const EntryReference& entry, const Manifest& manifest) {
  return FailedPrecondition(Concat(entry.path, " belongs to run ", Quote(manifest.run)));
}

std::string Describe(const std::vector<SkippedEntry>& skipped) {
  std::string text;
  for (std::size_t i = 0; i < skipped.size() && i < kNamedMax; ++i) {
    text += Concat("; step ", skipped[i].entry.step, ": ", skipped[i].reason.message());
  }
  if (skipped.size() > kNamedMax) text += Concat("; and ", skipped.size() - kNamedMax, " more");
  return text;
}

// The trash name takes the entry out of sight in one step; a crash afterwards leaves rubbish, not
// half an entry.
Status RemoveEntry(FileOperations& files, const std::string& folder, std::string_view run,
                   const EntryReference& entry) {
  MUSTER_ASSIGN_OR_RETURN(const std::string name,
                          MakeLeftoverName(LeftoverKind::kTrash, run, entry.step));
  const std::string trash = Concat(folder, "/", name);
  MUSTER_RETURN_IF_ERROR(files.Rename(entry.path, trash));
  MUSTER_RETURN_IF_ERROR(files.SyncFolder(folder));
  return RemoveFolderAndFiles(files, trash);
}

}  // namespace

Result<std::vector<EntryReference>> ListEntries(const std::string& folder) {
  MUSTER_ASSIGN_OR_RETURN(const std::vector<std::string> names, NamesIn(folder));
  std::vector<EntryReference> entries;
  for (const std::string& name : names) {
    const auto step = ParseEntryName(name);
    std::string path = Concat(folder, "/", name);
    if (step && IsFolder(path)) entries.push_back({*step, std::move(path)});
  }
  std::sort(entries.begin(), entries.end(),
            [](const EntryReference& a, const EntryReference& b) { return a.step < b.step; });
  return entries;
}

Result<Manifest> ReadManifest(const std::string& entry) {
  MUSTER_ASSIGN_OR_RETURN(const std::string text,
                          ReadSmallFile(Concat(entry, "/", kManifestName), kManifestBytesMax));
  auto manifest = ParseManifest(text);
  if (!manifest.ok()) return manifest.status().With(entry);
  const std::size_t slash = entry.find_last_of('/');
  const auto step =
      ParseEntryName(std::string_view(entry).substr(slash == std::string::npos ? 0 : slash + 1));
  if (step && *step != manifest->step) {
    return DataLoss(Concat(entry, " says it is step ", manifest->step));
  }
  return manifest;
}

Result<Manifest> VerifyEntry(const std::string& entry, VerifyDepth depth) {
  MUSTER_ASSIGN_OR_RETURN(Manifest manifest, ReadManifest(entry));
  MUSTER_RETURN_IF_ERROR(CheckShards(entry, manifest, depth));
  return manifest;
}

Result<FoundEntry> NewestVerified(const std::string& folder, std::optional<std::string_view> run,
                                  VerifyDepth depth) {
  MUSTER_ASSIGN_OR_RETURN(const std::vector<EntryReference> entries, ListEntries(folder));
  std::vector<SkippedEntry> skipped;
  bool all_foreign = true;
  for (auto entry = entries.rbegin(); entry != entries.rend(); ++entry) {
    // Whose it is comes before reading gigabytes of it. One whose manifest cannot be read may be
    // the run's own.
    auto manifest = ReadManifest(entry->path);
    if (manifest.ok() && run && manifest->run != *run) {
      skipped.push_back({*entry, BelongsToAnother(*entry, *manifest)});
      continue;
    }
    all_foreign = false;
    const Status status =
        manifest.ok() ? CheckShards(entry->path, *manifest, depth) : manifest.status();
    if (status.ok()) return FoundEntry{*entry, std::move(manifest).value(), std::move(skipped)};
    skipped.push_back({*entry, status});
  }
  if (all_foreign) {
    return NotFound(Concat("no checkpoint", run ? Concat(" of run ", Quote(*run)) : "", " in ",
                           folder, Describe(skipped)));
  }
  return DataLoss(Concat("no usable checkpoint in ", folder, Describe(skipped),
                         "; restore one or move them away to begin anew"));
}

Result<PruneReport> Prune(FileOperations& files, const std::string& folder, std::string_view run,
                          const PruneOptions& options) {
  if (options.keep < 1) {
    return InvalidArgument("a run keeps at least 1 checkpoint; keep is 0");
  }
  MUSTER_ASSIGN_OR_RETURN(const std::vector<EntryReference> entries, ListEntries(folder));
  PruneReport report;
  std::vector<EntryReference> old;  // the newest first
  std::size_t verified = 0;
  for (auto entry = entries.rbegin(); entry != entries.rend(); ++entry) {
    const auto manifest = ReadManifest(entry->path);
    if (!manifest.ok() || manifest->run != run) {
      report.left.push_back(
          {*entry, manifest.ok() ? BelongsToAnother(*entry, *manifest) : manifest.status()});
      continue;
    }
    if (verified >= options.keep) {
      if (!options.marked.contains(entry->step)) old.push_back(*entry);
      continue;
    }
    const bool known = options.known_good.contains(entry->step);
    const Status good =
        CheckShards(entry->path, *manifest, known ? VerifyDepth::kSizes : VerifyDepth::kDigests);
    if (good.ok()) {
      ++verified;
    } else {
      report.left.push_back({*entry, good});
    }
  }
  // The oldest first: a crash in between leaves the newer ones.
  for (auto entry = old.rbegin(); entry != old.rend(); ++entry) {
    const Status removed = RemoveEntry(files, folder, run, *entry);
    if (removed.ok()) {
      report.removed.push_back(*entry);
    } else {
      report.left.push_back({*entry, removed});
    }
  }
  return report;
}

Result<std::vector<std::string>> RemoveLeftovers(FileOperations& files, const std::string& folder,
                                                 std::string_view run, std::uint64_t before_step) {
  MUSTER_ASSIGN_OR_RETURN(const std::vector<std::string> names, NamesIn(folder));
  const std::string tag = RunTag(run);
  std::vector<std::string> removed;
  for (const std::string& name : names) {
    const auto leftover = ParseLeftoverName(name);
    if (!leftover || leftover->run_tag != tag) continue;
    if (leftover->kind == LeftoverKind::kTemporary && leftover->step >= before_step) continue;
    const std::string path = Concat(folder, "/", name);
    if (!IsFolder(path)) continue;
    MUSTER_RETURN_IF_ERROR(RemoveFolderAndFiles(files, path));
    removed.push_back(name);
  }
  return removed;
}

Status RemoveFolderAndFiles(FileOperations& files, const std::string& path) {
  MUSTER_ASSIGN_OR_RETURN(const std::vector<std::string> names, NamesIn(path));
  for (const std::string& name : names) {
    MUSTER_RETURN_IF_ERROR(files.RemoveFile(Concat(path, "/", name)));
  }
  return files.RemoveFolder(path);
}

}  // namespace muster::checkpoint
