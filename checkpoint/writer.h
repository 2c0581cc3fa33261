#pragma once

// Writing an entry so that it exists only when it is complete and durable.
//
// The order is the whole point: a hidden folder; the shards, each made durable; the manifest, made
// durable; the hidden folder's names, made durable; one rename to the entry's name; the parent's
// names, made durable. A crash at any point leaves either no entry or a whole one, and never
// touches an older one.
//
// One process calls WriteEntry. Several share the steps: one CreateTemporary, each its WriteShard,
// one CommitEntry with everybody's records. The memory given must not change until the call
// returns: a snapshot, not live weights. Blocks; call it from a thread that may wait for disks.
// Errors of the file system name the file, the bytes and what to do; ResourceExhausted is a full
// disk or quota, after which training may go on and an older entry may be pruned.

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/file_operations.h"
#include "checkpoint/manifest.h"
#include "common/status.h"

namespace muster::checkpoint {

struct TensorSource {
  TensorRecord record;  // `offset` is set by the writer
  std::span<const std::byte> data;
};

struct ShardSource {
  std::string name;  // "rank-0.shard"
  std::vector<TensorSource> tensors;
};

// The new hidden folder's path. NotFound: no such checkpoint folder.
Result<std::string> CreateTemporary(FileOperations& files, const std::string& folder,
                                    std::string_view run, std::uint64_t step);
// Writes one shard and makes it durable. InvalidArgument: data that is not as long as its record
// says.
Result<ShardRecord> WriteShard(FileOperations& files, const std::string& temporary,
                               const ShardSource& shard);
// Turns the hidden folder into the entry of manifest.step and returns the entry's path.
// AlreadyExists: a good entry of that step and run is there (a damaged one is replaced).
// FailedPrecondition: another run's entry of that step is there, or a newer muster's; it stays.
// NotFound or DataLoss: a shard of the manifest is missing or has another size.
Result<std::string> CommitEntry(FileOperations& files, const std::string& folder,
                                const std::string& temporary, const Manifest& manifest);
// Removes a hidden folder that will not be committed.
Status Abandon(FileOperations& files, const std::string& temporary);

// All of it; `manifest.shards` is filled in. On an error nothing is left behind, if the file system
// lets us.
Result<std::string> WriteEntry(FileOperations& files, const std::string& folder, Manifest manifest,
                               std::span<const ShardSource> shards);

// ResourceExhausted when the file system has less than `bytes` free for this user; ask before a
// snapshot is started.
Status CheckSpace(const std::string& folder, std::uint64_t bytes);

}  // namespace muster::checkpoint
