#pragma once

// The manifest of a checkpoint entry: what is in it, as plain values, and as JSON.
//
// ParseManifest takes bytes from anywhere: it checks every size, number, name and range, and that
// the shards hold every element of every tensor exactly once, before it returns. Pure.

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "checkpoint/digest.h"
#include "common/status.h"

namespace muster::checkpoint {

inline constexpr std::string_view kManifestName = "manifest.json";
// What this version writes, and the newest that it reads.
inline constexpr std::uint64_t kManifestVersion = 1;
// A manifest of 100,000 shards with one tensor each has some 30 MB; more is not plausible.
inline constexpr std::size_t kManifestBytesMax = std::size_t{64} << 20;

enum class ElementType { kFloat32, kFloat64, kFloat16, kBFloat16, kInt32, kInt64, kUint8 };
std::uint64_t ElementBytes(ElementType type);
std::string_view ElementTypeName(ElementType type);  // "float32"

// The part of a tensor that one shard holds: a range of its elements in row-major order. Another
// world size reads other ranges.
struct TensorRecord {
  std::string name;
  ElementType type = ElementType::kFloat32;
  std::vector<std::uint64_t> shape;  // of the whole tensor; empty: one number
  std::uint64_t first = 0;           // the range, in elements of the whole tensor
  std::uint64_t count = 0;
  std::uint64_t offset = 0;  // of the range's first byte in the shard's file

  // Elements of the whole tensor. REQUIRES a shape that was checked.
  std::uint64_t total() const;
  std::uint64_t bytes() const { return count * ElementBytes(type); }

  friend bool operator==(const TensorRecord&, const TensorRecord&) = default;
};

struct ShardRecord {
  std::string name;  // of the file in the entry's folder
  std::uint64_t bytes = 0;
  Digest digest;                      // of the whole file
  std::vector<TensorRecord> tensors;  // by offset, without overlaps

  friend bool operator==(const ShardRecord&, const ShardRecord&) = default;
};

using Scalar = std::variant<std::uint64_t, double, std::string>;

struct Manifest {
  std::string run;  // the run id that owns the entry
  std::uint64_t step = 0;
  std::uint64_t world_size = 0;
  std::map<std::string, Scalar> scalars;
  std::vector<ShardRecord> shards;

  friend bool operator==(const Manifest&, const Manifest&) = default;
};

// InvalidArgument naming the field: what ParseManifest would refuse is not written either.
Status Validate(const Manifest& manifest);
Result<std::string> SerializeManifest(const Manifest& manifest);

// DataLoss: not JSON, its own digest does not fit, or a value is missing, of the wrong kind or out
// of range. FailedPrecondition: written by a newer version of muster.
Result<Manifest> ParseManifest(std::string_view text);

}  // namespace muster::checkpoint
