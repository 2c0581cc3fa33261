#include "checkpoint/reader.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <utility>
#include <vector>

#include "common/text.h"

namespace muster::checkpoint {

namespace {

// Fits the second-level cache, so that the digest reads what the copy has just brought there.
constexpr std::size_t kChunkBytes = std::size_t{256} << 10;

class InputFile {
 public:
  // Not through a link, and never waiting on a pipe that somebody put there.
  static Result<InputFile> Open(const std::string& path) {
    const int descriptor = open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (descriptor < 0) return FromErrno(errno, "cannot read " + path);
    InputFile file(path, descriptor);
    struct stat info {};
    if (fstat(descriptor, &info) != 0) return FromErrno(errno, "cannot read " + path);
    if (!S_ISREG(info.st_mode)) return DataLoss(path + " is not a regular file");
    file.bytes_ = static_cast<std::uint64_t>(info.st_size);
    return file;
  }
  InputFile(InputFile&& other) noexcept
      : path_(std::move(other.path_)),
        descriptor_(std::exchange(other.descriptor_, -1)),
        bytes_(other.bytes_) {}
  InputFile& operator=(InputFile&&) = delete;
  ~InputFile() {
    if (descriptor_ >= 0) close(descriptor_);
  }

  std::uint64_t bytes() const { return bytes_; }

  // Fills `out` from `offset`, and adds it to the digest if there is one.
  Status Read(std::uint64_t offset, std::span<std::byte> out, DigestStream* digest) const {
    while (!out.empty()) {
      const std::size_t want = std::min(out.size(), kChunkBytes);
      const ssize_t got = pread(descriptor_, out.data(), want, static_cast<off_t>(offset));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return FromErrno(errno, Concat("cannot read ", path_, " at ", offset));
      if (got == 0) return DataLoss(Concat(path_, " ends at ", offset, " of ", bytes_, " bytes"));
      const auto part = out.first(static_cast<std::size_t>(got));
      if (digest != nullptr) digest->Update(part);
      offset += part.size();
      out = out.subspan(part.size());
    }
    return OkStatus();
  }

  // Adds [offset, end) to the digest by way of `scratch`.
  Status Skip(std::uint64_t offset, std::uint64_t end, std::vector<std::byte>& scratch,
              DigestStream* digest) const {
    if (digest == nullptr) return OkStatus();
    scratch.resize(kChunkBytes);
    while (offset < end) {
      const auto part = std::span(scratch).first(
          static_cast<std::size_t>(std::min<std::uint64_t>(kChunkBytes, end - offset)));
      MUSTER_RETURN_IF_ERROR(Read(offset, part, digest));
      offset += part.size();
    }
    return OkStatus();
  }

 private:
  InputFile(std::string path, int descriptor) : path_(std::move(path)), descriptor_(descriptor) {}

  std::string path_;
  int descriptor_;
  std::uint64_t bytes_ = 0;
};

// Bytes of a shard that go to one place.
struct Piece {
  std::uint64_t offset;
  std::span<std::byte> data;
};

using DestinationIndex = std::multimap<std::string_view, const TensorDestination*>;

Status AddPieces(const ShardRecord& shard, const DestinationIndex& index,
                 std::vector<Piece>& pieces) {
  for (const TensorRecord& tensor : shard.tensors) {
    const auto [begin, end] = index.equal_range(tensor.name);
    for (auto wanted = begin; wanted != end; ++wanted) {
      const TensorDestination& destination = *wanted->second;
      if (destination.type != tensor.type || destination.shape != tensor.shape) {
        return InvalidArgument(Concat("tensor ", tensor.name, " has another shape or type in the ",
                                      "checkpoint (", tensor.total(), " elements of ",
                                      ElementTypeName(tensor.type), "): is it another model's?"));
      }
      const std::uint64_t size = ElementBytes(tensor.type);
      const std::uint64_t first = std::max(destination.first, tensor.first);
      const std::uint64_t last =
          std::min(destination.first + destination.data.size() / size, tensor.first + tensor.count);
      if (first >= last) continue;
      pieces.push_back(
          {tensor.offset + (first - tensor.first) * size,
           destination.data.subspan((first - destination.first) * size, (last - first) * size)});
    }
  }
  std::sort(pieces.begin(), pieces.end(),
            [](const Piece& a, const Piece& b) { return a.offset < b.offset; });
  for (std::size_t i = 1; i < pieces.size(); ++i) {
    if (pieces[i - 1].offset + pieces[i - 1].data.size() > pieces[i].offset) {
      return InvalidArgument("two destinations want the same elements of shard " + shard.name);
    }
  }
  return OkStatus();
}

Status ReadShard(const std::string& path, const ShardRecord& shard,
                 const std::vector<Piece>& pieces, ReadCheck check,
                 std::vector<std::byte>& scratch) {
  MUSTER_ASSIGN_OR_RETURN(const InputFile file, InputFile::Open(path));
  if (file.bytes() != shard.bytes) {
    return DataLoss(Concat(path, " has ", file.bytes(), " bytes instead of ", shard.bytes));
  }
  DigestStream stream;
  DigestStream* digest = check == ReadCheck::kDigest ? &stream : nullptr;
  std::uint64_t next = 0;
  for (const Piece& piece : pieces) {
    MUSTER_RETURN_IF_ERROR(file.Skip(next, piece.offset, scratch, digest));
    MUSTER_RETURN_IF_ERROR(file.Read(piece.offset, piece.data, digest));
    next = piece.offset + piece.data.size();
  }
  MUSTER_RETURN_IF_ERROR(file.Skip(next, shard.bytes, scratch, digest));
  if (digest != nullptr && digest->Value() != shard.digest) {
    return DataLoss(Concat(path, " has the digest ", digest->Value().ToHex(), " instead of ",
                           shard.digest.ToHex()));
  }
  return OkStatus();
}

// Every wanted tensor is in the manifest, and the wanted range in the tensor.
Status CheckDestinations(const Manifest& manifest, const DestinationIndex& index) {
  std::map<std::string_view, std::uint64_t> totals;
  for (const ShardRecord& shard : manifest.shards) {
    for (const TensorRecord& tensor : shard.tensors) totals[tensor.name] = tensor.total();
  }
  for (const auto& [name, destination] : index) {
    const auto found = totals.find(name);
    if (found == totals.end()) {
      return NotFound(Concat("the checkpoint has no tensor ", name, ": is it another model's?"));
    }
    const std::uint64_t size = ElementBytes(destination->type);
    const std::uint64_t count = destination->data.size() / size;
    if (destination->data.size() % size != 0 || count > found->second ||
        destination->first > found->second - count) {
      return InvalidArgument(Concat("elements from ", destination->first, " in ",
                                    destination->data.size(), " bytes are not in tensor ", name,
                                    " of ", found->second));
    }
  }
  return OkStatus();
}

}  // namespace

Status ReadTensors(const std::string& entry, const Manifest& manifest,
                   std::span<const TensorDestination> destinations, ReadCheck check) {
  DestinationIndex index;
  for (const TensorDestination& destination : destinations) {
    index.emplace(destination.name, &destination);
  }
  MUSTER_RETURN_IF_ERROR(CheckDestinations(manifest, index));
  std::vector<std::byte> scratch;
  for (const ShardRecord& shard : manifest.shards) {
    std::vector<Piece> pieces;
    MUSTER_RETURN_IF_ERROR(AddPieces(shard, index, pieces));
    if (pieces.empty()) continue;
    MUSTER_RETURN_IF_ERROR(
        ReadShard(Concat(entry, "/", shard.name), shard, pieces, check, scratch));
  }
  return OkStatus();
}

Result<std::string> ReadSmallFile(const std::string& path, std::size_t limit) {
  MUSTER_ASSIGN_OR_RETURN(const InputFile file, InputFile::Open(path));
  if (file.bytes() > limit) {
    return DataLoss(Concat(path, " has ", file.bytes(), " bytes, more than ", limit));
  }
  std::string text(static_cast<std::size_t>(file.bytes()), '\0');
  MUSTER_RETURN_IF_ERROR(file.Read(0, std::as_writable_bytes(std::span(text)), nullptr));
  return text;
}

Status CheckFile(const std::string& path, std::uint64_t bytes, const Digest& digest) {
  const ShardRecord shard{.name = path, .bytes = bytes, .digest = digest, .tensors = {}};
  std::vector<std::byte> scratch;
  return ReadShard(path, shard, {}, ReadCheck::kDigest, scratch);
}

}  // namespace muster::checkpoint
