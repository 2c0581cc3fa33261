#include "checkpoint/manifest.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <utility>

#include "common/check.h"
#include "common/text.h"

namespace muster::checkpoint {

namespace {

// One process writes one shard, or a few; the largest machines have some 100,000 of them.
constexpr std::size_t kShardsMax = 1'000'000;
constexpr std::size_t kTensorsPerShardMax = 1'000'000;
constexpr std::size_t kScalarsMax = 10'000;
constexpr std::size_t kRankMax = 8;
constexpr std::size_t kNameBytesMax = 200;  // a file name may have 255 on every system
constexpr std::size_t kTextBytesMax = 64 << 10;
// 2^50 bytes in a file and elements in a tensor: sums of them do not overflow.
constexpr std::uint64_t kSizeMax = std::uint64_t{1} << 50;
constexpr std::uint64_t kStepMax = std::uint64_t{1} << 53;
constexpr std::uint64_t kWorldSizeMax = 10'000'000;

Status Bad(std::string message) { return InvalidArgument(std::move(message)); }

// No separators, no leading dot: nothing that names another folder or a hidden file.
bool IsFileName(std::string_view name) {
  if (name.empty() || name.size() > kNameBytesMax || name[0] == '.') return false;
  return std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.';
  });
}

// Any text that fits on a line: names of tensors, runs, scalars.
bool IsLabel(std::string_view text, std::size_t limit) {
  return !text.empty() && text.size() <= limit && std::all_of(text.begin(), text.end(), [](char c) {
    return static_cast<unsigned char>(c) >= 0x20 && c != 0x7f;
  });
}

Status CheckTensor(const TensorRecord& tensor, const ShardRecord& shard) {
  if (!IsLabel(tensor.name, kNameBytesMax)) {
    return Bad(Concat("shard ", shard.name, " has a tensor named ", Quote(tensor.name)));
  }
  const std::string where = Concat("tensor ", tensor.name, " in shard ", shard.name);
  if (tensor.shape.size() > kRankMax) return Bad(where + " has too many dimensions");
  std::uint64_t total = 1;
  for (std::uint64_t size : tensor.shape) {
    if (size > kSizeMax || (size != 0 && total > kSizeMax / size)) {
      return Bad(where + " has too many elements");
    }
    total *= size;
  }
  if (tensor.count > total || tensor.first > total - tensor.count) {
    return Bad(Concat(where, ": ", tensor.count, " elements from ", tensor.first, " are not in a ",
                      "tensor of ", total));
  }
  const std::uint64_t bytes = tensor.bytes();
  if (bytes > shard.bytes || tensor.offset > shard.bytes - bytes) {
    return Bad(Concat(where, ": ", bytes, " bytes from ", tensor.offset, " are not in a file of ",
                      shard.bytes));
  }
  return OkStatus();
}

Status CheckShard(const ShardRecord& shard) {
  if (!IsFileName(shard.name) || shard.name == kManifestName) {
    return Bad(Concat("a shard cannot be named ", Quote(shard.name)));
  }
  if (shard.bytes > kSizeMax) return Bad(Concat("shard ", shard.name, " is too large"));
  if (shard.tensors.size() > kTensorsPerShardMax) {
    return Bad(Concat("shard ", shard.name, " has too many tensors"));
  }
  std::uint64_t end = 0;
  for (const TensorRecord& tensor : shard.tensors) {
    MUSTER_RETURN_IF_ERROR(CheckTensor(tensor, shard));
    if (tensor.offset < end) {
      return Bad(
          Concat("tensor ", tensor.name, " in shard ", shard.name, " overlaps the one before it"));
    }
    end = tensor.offset + tensor.bytes();
  }
  return OkStatus();
}

// All shards together hold each tensor once.
Status CheckCoverage(const Manifest& manifest) {
  std::map<std::string_view, std::vector<const TensorRecord*>> parts;
  for (const ShardRecord& shard : manifest.shards) {
    for (const TensorRecord& tensor : shard.tensors) parts[tensor.name].push_back(&tensor);
  }
  for (auto& [name, ranges] : parts) {
    std::sort(ranges.begin(), ranges.end(), [](const TensorRecord* a, const TensorRecord* b) {
      return std::pair(a->first, a->count) < std::pair(b->first, b->count);
    });
    const TensorRecord& whole = *ranges.front();
    std::uint64_t next = 0;
    for (const TensorRecord* range : ranges) {
      if (range->shape != whole.shape || range->type != whole.type) {
        return Bad(Concat("shards disagree on the shape or type of tensor ", name));
      }
      if (range->first != next) {
        return Bad(Concat("elements ", std::min(next, range->first), " to ",
                          std::max(next, range->first), " of tensor ", name,
                          range->first > next ? " are in no shard" : " are in two shards"));
      }
      next += range->count;
    }
    if (next != whole.total()) {
      return Bad(Concat("elements ", next, " to ", whole.total(), " of tensor ", name,
                        " are in no shard"));
    }
  }
  return OkStatus();
}

Status CheckScalars(const Manifest& manifest) {
  if (manifest.scalars.size() > kScalarsMax) return Bad("too many scalars");
  for (const auto& [name, value] : manifest.scalars) {
    if (!IsLabel(name, kNameBytesMax)) return Bad(Concat("a scalar is named ", Quote(name)));
    if (const auto* number = std::get_if<double>(&value); number && !std::isfinite(*number)) {
      return Bad(Concat("scalar ", name, " is not finite"));
    }
    if (const auto* text = std::get_if<std::string>(&value); text && text->size() > kTextBytesMax) {
      return Bad(Concat("scalar ", name, " is a text of ", text->size(), " bytes"));
    }
  }
  return OkStatus();
}

}  // namespace

std::uint64_t ElementBytes(ElementType type) {
  switch (type) {
    case ElementType::kFloat32:
      return 4;
    case ElementType::kFloat64:
      return 8;
    case ElementType::kFloat16:
      return 2;
    case ElementType::kBFloat16:
      return 2;
    case ElementType::kInt32:
      return 4;
    case ElementType::kInt64:
      return 8;
    case ElementType::kUint8:
      return 1;
  }
  CheckFailed(__FILE__, __LINE__, "type", "an element type outside its enum");
}

std::string_view ElementTypeName(ElementType type) {
  switch (type) {
    case ElementType::kFloat32:
      return "float32";
    case ElementType::kFloat64:
      return "float64";
    case ElementType::kFloat16:
      return "float16";
    case ElementType::kBFloat16:
      return "bfloat16";
    case ElementType::kInt32:
      return "int32";
    case ElementType::kInt64:
      return "int64";
    case ElementType::kUint8:
      return "uint8";
  }
  CheckFailed(__FILE__, __LINE__, "type", "an element type outside its enum");
}

std::uint64_t TensorRecord::total() const {
  std::uint64_t total = 1;
  for (std::uint64_t size : shape) total *= size;
  return total;
}

Status Validate(const Manifest& manifest) {
  if (!IsLabel(manifest.run, kNameBytesMax)) {
    return Bad(Concat("the run id is ", Quote(manifest.run), "; it must be one line of 1 to ",
                      kNameBytesMax, " bytes"));
  }
  if (manifest.step > kStepMax) return Bad(Concat("step ", manifest.step, " is too large"));
  if (manifest.world_size < 1 || manifest.world_size > kWorldSizeMax) {
    return Bad(Concat("the world size is ", manifest.world_size));
  }
  if (manifest.shards.empty()) return Bad("there are no shards");
  if (manifest.shards.size() > kShardsMax) return Bad("there are too many shards");
  MUSTER_RETURN_IF_ERROR(CheckScalars(manifest));
  std::set<std::string_view> names;
  for (const ShardRecord& shard : manifest.shards) {
    MUSTER_RETURN_IF_ERROR(CheckShard(shard));
    if (!names.insert(shard.name).second) {
      return Bad(Concat("there are two shards named ", shard.name));
    }
  }
  return CheckCoverage(manifest);
}

}  // namespace muster::checkpoint
