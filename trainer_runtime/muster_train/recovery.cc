#include "trainer_runtime/muster_train/recovery.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "common/log.h"
#include "common/text.h"
#include "trainer_runtime/train/training_state.h"

namespace muster::train_program {
namespace {

using DigestBytes = std::array<std::uint8_t, 16>;

// What each rank tells of itself. All ranks run the same program on the same kind of machine.
struct RankState {
  std::uint64_t has_state = 0;
  std::uint64_t step = 0;
  double last_loss = 0;
  std::array<std::byte, training::kStateHeaderBytes> header{};  // progress and digests
  DigestBytes recipe{};

  bool SameAs(const RankState& other) const {
    return has_state == other.has_state && header == other.header;
  }
};

enum class Decision : std::uint64_t { kSeed, kCheckpoint, kError };
struct Decided {
  Decision decision = Decision::kSeed;
  std::array<char, 4096> text{};  // the entry's path, or the error
};

template <typename T>
std::span<std::byte> BytesOf(T& value) {
  static_assert(std::is_trivially_copyable_v<T>);
  return std::as_writable_bytes(std::span(&value, 1));
}

class Recovery {
 public:
  Recovery(comm::ProcessGroup& group, const Options& options, Checkpointer& checkpointer,
           Replica* replica)
      : group_(group), options_(options), checkpointer_(checkpointer), replica_(*replica) {
    const std::string recipe = Recipe(options);
    recipe_ = checkpoint::DigestOf(std::as_bytes(std::span(recipe))).bytes;
  }

  Result<Origin> Run() {
    origin_.text = "this process";
    // First what the ranks have; then what they have loaded or drawn.
    for (int pass = 0; pass < 2; ++pass) {
      MUSTER_RETURN_IF_ERROR(Exchange());
      const int source = Newest();
      if (source >= 0) {
        MUSTER_RETURN_IF_ERROR(Spread(source));
        return origin_;
      }
      if (pass == 0) MUSTER_RETURN_IF_ERROR(Begin());
    }
    return DataLoss("no rank could load the checkpoint that rank 0 chose; see the warnings above");
  }

 private:
  Status Exchange() {
    RankState own;
    own.recipe = recipe_;
    own.has_state = replica_.has_state() ? 1 : 0;
    if (replica_.has_state()) {
      own.step = replica_.step();
      own.last_loss = replica_.last_loss();
      own.header = training::EncodeStateHeader(
          training::DescribeState(replica_.progress(), replica_.arrays()));
    }
    states_.assign(static_cast<std::size_t>(group_.size()), {});
    MUSTER_RETURN_IF_ERROR(
        group_.AllGather(BytesOf(own), std::as_writable_bytes(std::span(states_))).Wait());
    for (std::size_t rank = 0; rank < states_.size(); ++rank) {
      if (states_[rank].recipe != states_[0].recipe) {
        return FailedPrecondition(Concat("rank ", rank,
                                         " was started with other options than rank "
                                         "0; rank ",
                                         group_.rank(), " has: ", Recipe(options_)));
      }
    }
    return OkStatus();
  }

  // The lowest rank with the newest state, or -1.
  int Newest() const {
    int newest = -1;
    for (std::size_t rank = 0; rank < states_.size(); ++rank) {
      if (states_[rank].has_state == 0) continue;
      if (newest < 0 || states_[rank].step > states_[static_cast<std::size_t>(newest)].step) {
        newest = static_cast<int>(rank);
      }
    }
    return newest;
  }

  Status Spread(int source) {
    const RankState& newest = states_[static_cast<std::size_t>(source)];
    const bool mine = states_[static_cast<std::size_t>(group_.rank())].SameAs(newest);
    const bool all =
        std::ranges::all_of(states_, [&](const RankState& state) { return state.SameAs(newest); });
    if (all) return OkStatus();
    MUSTER_ASSIGN_OR_RETURN(const training::StateHeader header,
                            training::DecodeStateHeader(newest.header));
    const training::TrainingArrays arrays = replica_.arrays();
    MUSTER_RETURN_IF_ERROR(
        training::CheckStateFits(header, training::ModelFingerprint(replica_.tensors()), arrays));
    // Who has the same bytes already stays whole even if this breaks off; the others are torn.
    if (!mine) replica_.DropState();
    for (const std::span<std::byte> bytes : arrays.bytes()) {
      MUSTER_RETURN_IF_ERROR(group_.Broadcast(bytes, source).Wait());
    }
    if (mine) return OkStatus();
    MUSTER_RETURN_IF_ERROR(training::VerifyState(header, arrays)
                               .With(Concat("rank ", group_.rank(), " healed from rank ", source)));
    replica_.SetState(header.progress, newest.last_loss);
    origin_.text = Concat("rank ", source);
    return OkStatus();
  }

  Status Begin() {
    Decided decided;
    if (group_.rank() == 0) decided = Decide();
    MUSTER_RETURN_IF_ERROR(group_.Broadcast(BytesOf(decided), 0).Wait());
    const std::string text(decided.text.data());
    switch (decided.decision) {
      case Decision::kSeed:
        replica_.Initialize();
        origin_.text = Concat("seed ", options_.seed);
        return OkStatus();
      case Decision::kCheckpoint: {
        // A rank that cannot read it gets the state from one that can.
        const Status status = checkpointer_.Load(text, group_.rank() == 0, &replica_);
        if (status.code() == StatusCode::kFailedPrecondition) return status;
        if (status.ok()) origin_.text = Concat("checkpoint ", text);
        if (!status.ok()) LogWarning(Concat("rank ", group_.rank(), ": ", status.message()));
        return OkStatus();
      }
      case Decision::kError:
        return DataLoss(text);
    }
    return Internal("rank 0 sent a decision that does not exist");
  }

  Decided Decide() {
    Decided decided;
    const auto found = checkpointer_.FindNewest();
    std::string text;
    if (!found.ok()) {
      decided.decision = Decision::kError;
      text = found.status().message();
    } else if (found->has_value()) {
      decided.decision = Decision::kCheckpoint;
      text = (*found)->entry.path;
    }
    if (text.size() >= decided.text.size()) {
      decided.decision = Decision::kError;
      text = "the path of the checkpoint folder is too long";
    }
    std::ranges::copy(text, decided.text.begin());
    return decided;
  }

  comm::ProcessGroup& group_;
  const Options& options_;
  Checkpointer& checkpointer_;
  Replica& replica_;
  DigestBytes recipe_{};
  std::vector<RankState> states_;
  Origin origin_;
};

}  // namespace

Result<Origin> AgreeOnState(comm::ProcessGroup& group, const Options& options,
                            Checkpointer& checkpointer, Replica* replica) {
  return Recovery(group, options, checkpointer, replica).Run();
}

}  // namespace muster::train_program
