#pragma once

// Reading an entry into memory that the caller already has, whatever world size wrote it.
//
// Each wanted range is gathered from the shards that hold it, straight into its destination.
// Blocks. Thread-safe for different destinations.

#include <cstddef>
#include <span>
#include <string>

#include "checkpoint/manifest.h"
#include "common/status.h"

namespace muster::checkpoint {

// Elements [first, first + data.size() / element size) of a tensor, wanted at `data`.
struct TensorDestination {
  std::string name;
  ElementType type = ElementType::kFloat32;
  std::vector<std::uint64_t> shape;  // of the whole tensor, as this program has it
  std::uint64_t first = 0;
  std::span<std::byte> data;
};

// kDigest reads every shard that holds something wanted from end to end, once, and compares its
// digest; kNone reads the wanted bytes only (for an entry that was verified just now).
enum class ReadCheck { kDigest, kNone };

// `manifest` is the entry's own, parsed or verified before. NotFound: a tensor is not in the entry.
// InvalidArgument: it has another shape or type, or two destinations want the same elements.
// DataLoss: a file is damaged or cut short; the destinations then hold nothing of worth, and the
// next older entry is to be tried.
Status ReadTensors(const std::string& entry, const Manifest& manifest,
                   std::span<const TensorDestination> destinations,
                   ReadCheck check = ReadCheck::kDigest);

// A file's whole text, if it is a regular file (no link) of at most `limit` bytes.
Result<std::string> ReadSmallFile(const std::string& path, std::size_t limit);
// DataLoss unless the file has this size and digest.
Status CheckFile(const std::string& path, std::uint64_t bytes, const Digest& digest);

}  // namespace muster::checkpoint
