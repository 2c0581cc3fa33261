#pragma once

// What a checkpoint folder holds: finding the entry to resume from, and removing old ones.
//
// Order is by step number and run, never by text or time. Nothing here trusts a name: an entry
// counts when its manifest, sizes and digests fit. Reads block as long as the file system does.

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/file_operations.h"
#include "checkpoint/manifest.h"
#include "common/status.h"

namespace muster::checkpoint {

struct EntryReference {
  std::uint64_t step = 0;
  std::string path;

  friend bool operator==(const EntryReference&, const EntryReference&) = default;
};

// By step, the oldest first. Other names in the folder are passed over. NotFound: no such folder.
Result<std::vector<EntryReference>> ListEntries(const std::string& folder);

// The entry's manifest; nothing is said about its shards. NotFound: there is none. DataLoss: it is
// damaged. FailedPrecondition: written by a newer muster.
Result<Manifest> ReadManifest(const std::string& entry);

// kSizes reads the manifest and asks for the files' sizes; kDigests reads every byte.
enum class VerifyDepth { kSizes, kDigests };

// The manifest, when everything fits. Errors: ReadManifest's, and DataLoss for a shard that is
// missing or differs.
Result<Manifest> VerifyEntry(const std::string& entry, VerifyDepth depth = VerifyDepth::kDigests);

struct SkippedEntry {
  EntryReference entry;
  Status reason;
};

struct FoundEntry {
  EntryReference entry;
  Manifest manifest;
  std::vector<SkippedEntry> skipped;  // newer ones, the newest first, and why
};

// The newest entry that verifies; with `run`, of that run only. NotFound: there is none of this run
// at all, so a fresh start is right. DataLoss: there are some, and every one is damaged: somebody
// should look before the run begins anew.
Result<FoundEntry> NewestVerified(const std::string& folder,
                                  std::optional<std::string_view> run = std::nullopt,
                                  VerifyDepth depth = VerifyDepth::kDigests);

struct PruneOptions {
  std::size_t keep = 2;  // verified entries that stay
  // Steps that stay whatever their age.
  std::set<std::uint64_t> marked;
  // Steps that this process has verified or written itself: not read again, only measured.
  std::set<std::uint64_t> known_good;
};

struct PruneReport {
  std::vector<EntryReference> removed;
  std::vector<SkippedEntry> left;  // damaged, of another run, or not removable: left where they are
};

// Removes the run's entries older than its `keep` newest verified ones; call it after a commit.
// With fewer verified entries than that, nothing is removed, so the last good one never is.
// InvalidArgument: keep is 0.
Result<PruneReport> Prune(FileOperations& files, const std::string& folder, std::string_view run,
                          const PruneOptions& options);

// Removes what dead writers and removers of this run left: all trash, and temporaries of steps
// below `before_step` (those from there on may be somebody's work in progress). Returns the names.
Result<std::vector<std::string>> RemoveLeftovers(FileOperations& files, const std::string& folder,
                                                 std::string_view run, std::uint64_t before_step);

// Removes a folder of files; refuses folders in it.
Status RemoveFolderAndFiles(FileOperations& files, const std::string& path);

}  // namespace muster::checkpoint
