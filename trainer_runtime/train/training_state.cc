#include "trainer_runtime/train/training_state.h"

#include <bit>
#include <cstring>
#include <type_traits>

#include "common/check.h"
#include "common/text.h"

namespace muster::training {

static_assert(std::endian::native == std::endian::little, "the state is sent as it lies in memory");

namespace {

constexpr std::uint64_t kMagic = 0x3145544154534d4d;  // "MMSTATE1" in memory
constexpr std::uint64_t kVersion = 1;
// As many parameters as fit into no machine; keeps sums of sizes from overflowing.
constexpr std::uint64_t kCountMax = std::uint64_t{1} << 50;
constexpr std::array<std::string_view, 3> kArrayNames = {"parameters", "first moment",
                                                         "second moment"};

// Visits every field of the header in wire order, but for its own digest at the end.
template <typename Header, typename Visit>
void ForEachField(Header& header, Visit visit) {
  auto& progress = header.progress;
  visit(progress.step);
  visit(progress.updates);
  visit(progress.cursor.seed);
  visit(progress.cursor.samples_consumed);
  visit(progress.global_batch);
  visit(progress.schedule.peak);
  visit(progress.schedule.minimum);
  visit(progress.schedule.warmup_steps);
  visit(progress.schedule.total_steps);
  visit(progress.optimizer.beta1);
  visit(progress.optimizer.beta2);
  visit(progress.optimizer.epsilon);
  visit(progress.optimizer.weight_decay);
  visit(progress.model);
  visit(progress.corpus);
  visit(header.first);
  visit(header.count);
  visit(header.total);
  for (auto& digest : header.digests) visit(digest);
}

constexpr std::size_t kDigestBytes = sizeof(checkpoint::Digest);
constexpr std::size_t kSignedBytes = kStateHeaderBytes - kDigestBytes;

void AddNumber(checkpoint::DigestStream& digest, std::uint64_t number) {
  digest.Update(std::as_bytes(std::span<const std::uint64_t>(&number, 1)));
}

}  // namespace

checkpoint::Digest ModelFingerprint(std::span<const models::Tensor> tensors) {
  checkpoint::DigestStream digest;
  for (const models::Tensor& tensor : tensors) {
    AddNumber(digest, tensor.name.size());
    digest.Update(std::as_bytes(std::span(tensor.name)));
    AddNumber(digest, tensor.shape.size());
    for (std::size_t size : tensor.shape) AddNumber(digest, size);
  }
  return digest.Value();
}

StateHeader DescribeState(const TrainingProgress& progress, const TrainingArrays& arrays) {
  StateHeader header{progress, arrays.first, arrays.parameters.size(), arrays.total, {}};
  for (std::size_t i = 0; i < header.digests.size(); ++i) {
    MUSTER_CHECK(arrays.all()[i].size() == header.count, "the three arrays have the same size");
    header.digests[i] = checkpoint::DigestOf(arrays.bytes()[i]);
  }
  return header;
}

std::array<std::byte, kStateHeaderBytes> EncodeStateHeader(const StateHeader& header) {
  std::array<std::byte, kStateHeaderBytes> out{};
  std::size_t at = 0;
  auto put = [&](const auto& field) {
    static_assert(std::is_trivially_copyable_v<std::remove_cvref_t<decltype(field)>>);
    MUSTER_CHECK(at + sizeof(field) <= kSignedBytes, "the header's fields outgrew its size");
    std::memcpy(out.data() + at, &field, sizeof(field));
    at += sizeof(field);
  };
  put(kMagic);
  put(kVersion);
  ForEachField(header, put);
  MUSTER_CHECK(at == kSignedBytes, "the header's fields fill it");
  const checkpoint::Digest digest = checkpoint::DigestOf(std::span(out).first(kSignedBytes));
  std::memcpy(out.data() + at, &digest, sizeof(digest));
  return out;
}

Result<StateHeader> DecodeStateHeader(std::span<const std::byte> bytes) {
  if (bytes.size() != kStateHeaderBytes) {
    return DataLoss(
        Concat("a training state's header has ", kStateHeaderBytes, " bytes, not ", bytes.size()));
  }
  std::size_t at = 0;
  auto get = [&](auto& field) {
    std::memcpy(&field, bytes.data() + at, sizeof(field));
    at += sizeof(field);
  };
  std::uint64_t magic = 0, version = 0;
  get(magic);
  get(version);
  if (magic != kMagic) return DataLoss("these bytes are no training state");
  if (version != kVersion) {
    return FailedPrecondition(Concat("the training state has version ", version, ", this muster ",
                                     "reads ", kVersion, ": use one muster on all nodes"));
  }
  StateHeader header;
  ForEachField(header, get);
  checkpoint::Digest digest;
  get(digest);
  if (digest != checkpoint::DigestOf(bytes.first(kSignedBytes))) {
    return DataLoss("the training state's header is damaged");
  }
  if (header.total > kCountMax || header.count > header.total ||
      header.first > header.total - header.count) {
    return DataLoss(Concat("the training state says it has ", header.count, " parameters from ",
                           header.first, " of ", header.total));
  }
  for (const Status& status :
       {Validate(header.progress.schedule), Validate(header.progress.optimizer)}) {
    if (!status.ok()) return DataLoss("the training state is senseless: " + status.message());
  }
  return header;
}

Status CheckStateFits(const StateHeader& header, const checkpoint::Digest& model,
                      const TrainingArrays& arrays) {
  if (header.progress.model != model) {
    return FailedPrecondition("the training state is of a model with other tensors");
  }
  if (header.first != arrays.first || header.count != arrays.parameters.size() ||
      header.total != arrays.total) {
    return FailedPrecondition(Concat("the training state has ", header.count, " parameters from ",
                                     header.first, " of ", header.total, "; here is place for ",
                                     arrays.parameters.size(), " from ", arrays.first, " of ",
                                     arrays.total));
  }
  return OkStatus();
}

Status VerifyState(const StateHeader& header, const TrainingArrays& arrays) {
  for (std::size_t i = 0; i < header.digests.size(); ++i) {
    if (checkpoint::DigestOf(arrays.bytes()[i]) != header.digests[i]) {
      return DataLoss(Concat("the received training state of step ", header.progress.step,
                             " is damaged in its ", kArrayNames[i]));
    }
  }
  return OkStatus();
}

}  // namespace muster::training
