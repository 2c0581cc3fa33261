#include "trainer_runtime/comm/nccl_group.h"

#include <pthread.h>

#include <atomic>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "common/check.h"
#include "common/text.h"
#include "trainer_runtime/comm/nccl_communicator.h"
#include "trainer_runtime/comm/work_queue.h"

namespace muster::comm {
namespace {

// For peers that are past their last operation too: they answer or are gone.
constexpr Duration kCloseTimeout = std::chrono::seconds(2);
// How often to ask NCCL for errors while no operation runs.
constexpr Duration kWatchPeriod = std::chrono::milliseconds(100);
// How long one call of NCCL may last after an abort. They only enqueue.
constexpr Duration kCallPatience = std::chrono::seconds(5);

std::string LabelOf(const session::RoundInfo& info, const NcclOptions& options) {
  return Concat("NCCL communicator ", Quote(options.name), " of ",
                session::ToString(session::IdOf(info)), ", rank ", info.rank, " of ",
                info.world_size);
}

// CUDA's runtime beside the NCCL that was asked for comes first: the two belong together.
Result<const cuda::Api*> LoadCuda(const NcclOptions& options, const nccl::Api& nccl) {
  if (options.cuda_library.empty() && !options.nccl_library.empty()) {
    const std::string folder = nccl.path.substr(0, nccl.path.rfind('/'));
    if (const auto beside = cuda::Load(folder); beside.ok()) return beside;
  }
  return cuda::Load(options.cuda_library);
}

// "ranks 1, 3, 4 and 2 more": those whose keys are not set, of rank 1 and on.
std::string DescribeMissing(session::Session& session, const std::vector<std::string>& keys) {
  constexpr std::size_t kNamesMax = 3;
  std::vector<std::string> names;
  std::size_t missing = 0;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const auto value = session.KeyGet(session::KeyScope::kRound, keys[i]);
    if (value.ok()) continue;
    // The session is lost or the round is over: there is nobody to ask any more.
    if (value.status().code() != StatusCode::kNotFound) break;
    if (++missing <= kNamesMax) names.push_back(std::to_string(i + 1));
  }
  if (missing == 0) return "some ranks";
  return Concat("ranks ", Join(names, ", "),
                missing > kNamesMax ? Concat(" and ", missing - kNamesMax, " more") : "");
}

Result<int> ChooseDevice(const cuda::Api& cuda, const session::RoundInfo& info, int wanted) {
  int count = 0;
  MUSTER_RETURN_IF_ERROR(cuda.Check(cuda.get_device_count(&count), "count the CUDA devices"));
  if (wanted >= 0) {
    if (wanted < count) return wanted;
    return InvalidArgument(
        Concat("CUDA device ", wanted, " was asked for, this process sees ", count));
  }
  const int local_rank = static_cast<int>(info.local_rank);
  // One device a process is what Slurm shows when it binds tasks to devices.
  if (count == 1) return 0;
  if (local_rank < count) return local_rank;
  return FailedPrecondition(Concat("local rank ", local_rank, " has no CUDA device: this node's ",
                                   info.local_world_size, " ranks see ", count,
                                   ". Start fewer workers a node, or look at "
                                   "CUDA_VISIBLE_DEVICES"));
}

class NcclGroup final : public ProcessGroup {
 public:
  NcclGroup(const nccl::Api& nccl, const cuda::Api& cuda, const session::RoundInfo& info,
            const NcclOptions& options)
      : ProcessGroup(static_cast<int>(info.rank), static_cast<int>(info.world_size)),
        cuda_(cuda),
        info_(info),
        options_(options),
        label_(LabelOf(info, options)),
        communicator_(nccl, cuda, label_, stop_.get_token()),
        queue_([this] { communicator_.EndByForce(); }) {
    watcher_ = std::jthread([this](const std::stop_token& stop) { WatchErrors(stop); });
    pthread_setname_np(watcher_.native_handle(), "muster-nccl");
  }

  ~NcclGroup() override {
    watch_.Cancel();
    Abort(Aborted("the process group was destroyed"));
  }

  // Blocks until all ranks are connected.
  Status Form(session::Session& session) {
    watch_ =
        session.WatchRound(session::IdOf(info_), [this](const Status& reason) { Abort(reason); });
    return Push([this, &session] { return FormHere(session); }).Wait();
  }

  Work AllReduce(std::span<float> values) override {
    return Push([this, values] { return AllReduceHere(values); });
  }
  Work Broadcast(std::span<std::byte> bytes, int root) override {
    MUSTER_CHECK(root >= 0 && root < size(), "the root of a broadcast is a rank of the group");
    return Push([this, bytes, root] { return BroadcastHere(bytes, root); });
  }
  Work AllGather(std::span<const std::byte> own, std::span<std::byte> all) override {
    MUSTER_CHECK(all.size() == own.size() * static_cast<std::size_t>(size()),
                 "an all-gather's result has room for one part of each rank");
    return Push([this, own, all] { return AllGatherHere(own, all); });
  }
  Work Barrier() override {
    return Push([this] {
      float one = 1;
      return AllReduceHere(std::span(&one, 1));
    });
  }

  void Abort(const Status& reason) override {
    queue_.Break(reason);
    stop_.request_stop();
  }
  Status state() const override { return queue_.state(); }

  void Close() override {
    watch_.Cancel();
    (void)queue_.Push([this] { return CloseHere().With(label_); }).Wait();
  }

 private:
  Work Push(WorkQueue::Operation operation) {
    return queue_.Push([this, operation = std::move(operation)] {
      if (closing_) return FailedPrecondition(Concat(label_, " is closed"));
      return operation().With(label_);
    });
  }
  // On the queue's thread.
  Status FormHere(session::Session& session);
  Result<nccl::UniqueId> Meet(session::Session& session, TimePoint deadline);
  Status Reduce(const std::string& what, TimePoint deadline, std::span<float> values);
  Status AllReduceHere(std::span<float> values);
  Status BroadcastHere(std::span<std::byte> bytes, int root);
  Status AllGatherHere(std::span<const std::byte> own, std::span<std::byte> all);
  Status CloseHere();

  void WatchErrors(const std::stop_token& stop);
  TimePoint deadline() const { return SteadyNow() + options_.operation_timeout; }

  const cuda::Api& cuda_;
  const session::RoundInfo info_;
  const NcclOptions options_;
  const std::string label_;
  std::stop_source stop_;
  std::atomic<bool> formed_ = false, closing_ = false;
  NcclCommunicator communicator_;
  WorkQueue queue_;            // joined before the communicator goes
  std::jthread watcher_;       // breaks the queue
  session::RoundWatch watch_;  // last: no callback into a half-destroyed group
};

// ------------------------------------------------------------------------------- forming

// NCCL's bootstrap has no time-out, so this is a barrier as well: the id exists only once every
// rank has said that it is here.
Result<nccl::UniqueId> NcclGroup::Meet(session::Session& session, TimePoint deadline) {
  const std::string prefix = Concat("nccl/", options_.name, "/");
  const auto here = [&](int rank) { return Concat(prefix, "here/", rank); };
  nccl::UniqueId id;
  if (rank() != 0) {
    MUSTER_RETURN_IF_ERROR(session.KeySet(session::KeyScope::kRound, here(rank()), "1"));
    const auto values = session.KeyWaitAll(session::KeyScope::kRound, {Concat(prefix, "id")},
                                           deadline - SteadyNow(), stop_.get_token());
    if (!values.ok()) {
      return values.status().With("waiting for NCCL's id, which rank 0 makes once all are here");
    }
    if (values->at(0).size() != sizeof(id.internal)) {
      return Internal(Concat("rank 0 published ", values->at(0).size(), " bytes as NCCL's id"));
    }
    std::memcpy(id.internal, values->at(0).data(), sizeof(id.internal));
    return id;
  }
  std::vector<std::string> keys;
  for (int peer = 1; peer < size(); ++peer) keys.push_back(here(peer));
  const auto all = session.KeyWaitAll(session::KeyScope::kRound, keys, deadline - SteadyNow(),
                                      stop_.get_token());
  if (all.status().code() == StatusCode::kDeadlineExceeded) {
    return DeadlineExceeded(
        Concat("waiting for all ranks to be ready for NCCL: ", DescribeMissing(session, keys),
               " have not come within ", DescribeDuration(options_.connect_timeout)));
  }
  if (!all.ok()) return all.status().With("waiting for all ranks to be ready for NCCL");
  MUSTER_ASSIGN_OR_RETURN(id, communicator_.NewUniqueId());
  MUSTER_RETURN_IF_ERROR(session.KeySet(session::KeyScope::kRound, Concat(prefix, "id"),
                                        std::string(id.internal, sizeof(id.internal))));
  return id;
}

Status NcclGroup::FormHere(session::Session& session) {
  const TimePoint deadline = SteadyNow() + options_.connect_timeout;
  MUSTER_ASSIGN_OR_RETURN(const int device, ChooseDevice(cuda_, info_, options_.device));
  MUSTER_RETURN_IF_ERROR(communicator_.UseDevice(device));
  MUSTER_ASSIGN_OR_RETURN(const nccl::UniqueId id, Meet(session, deadline));
  const std::string name = Concat("muster-", info_.run_id, info_.run_id.empty() ? "" : "-",
                                  options_.name, "-", info_.attempt, ".", info_.round);
  MUSTER_RETURN_IF_ERROR(communicator_.Form(id, rank(), size(), name, deadline));
  formed_ = true;
  return OkStatus();
}

// ------------------------------------------------------------------------------- operations

Status NcclGroup::Reduce(const std::string& what, TimePoint deadline, std::span<float> values) {
  Staging& staging = communicator_.staging();
  MUSTER_ASSIGN_OR_RETURN(std::byte* const buffer, staging.Buffer(values.size_bytes()));
  MUSTER_RETURN_IF_ERROR(staging.CopyIn(buffer, values.data(), values.size_bytes()));
  MUSTER_RETURN_IF_ERROR(
      communicator_.Run(what, deadline, [&](nccl::Comm comm, cuda::Stream stream) {
        return communicator_.api().all_reduce(buffer, buffer, values.size(),
                                              nccl::DataType::kFloat32, nccl::Reduction::kSum, comm,
                                              stream);
      }));
  return staging.CopyOut(values.data(), buffer, values.size_bytes());
}

Status NcclGroup::AllReduceHere(std::span<float> values) {
  if (values.empty()) return OkStatus();
  return Reduce(Concat("all-reduce of ", values.size(), " floats"), deadline(), values);
}

Status NcclGroup::BroadcastHere(std::span<std::byte> bytes, int root) {
  if (bytes.empty()) return OkStatus();
  Staging& staging = communicator_.staging();
  MUSTER_ASSIGN_OR_RETURN(std::byte* const buffer, staging.Buffer(bytes.size()));
  if (rank() == root) {
    MUSTER_RETURN_IF_ERROR(staging.CopyIn(buffer, bytes.data(), bytes.size()));
  }
  MUSTER_RETURN_IF_ERROR(communicator_.Run(
      Concat("broadcast of ", bytes.size(), " bytes from rank ", root), deadline(),
      [&](nccl::Comm comm, cuda::Stream stream) {
        return communicator_.api().broadcast(buffer, buffer, bytes.size(), nccl::DataType::kUint8,
                                             root, comm, stream);
      }));
  return rank() == root ? OkStatus() : staging.CopyOut(bytes.data(), buffer, bytes.size());
}

Status NcclGroup::AllGatherHere(std::span<const std::byte> own, std::span<std::byte> all) {
  if (own.empty()) return OkStatus();
  Staging& staging = communicator_.staging();
  MUSTER_ASSIGN_OR_RETURN(std::byte* const buffer, staging.Buffer(all.size()));
  // In place: this rank's part lies where it belongs.
  std::byte* const part = buffer + static_cast<std::size_t>(rank()) * own.size();
  MUSTER_RETURN_IF_ERROR(staging.CopyIn(part, own.data(), own.size()));
  MUSTER_RETURN_IF_ERROR(communicator_.Run(Concat("all-gather of ", own.size(), " bytes a rank"),
                                           deadline(), [&](nccl::Comm comm, cuda::Stream stream) {
                                             return communicator_.api().all_gather(
                                                 part, buffer, own.size(), nccl::DataType::kUint8,
                                                 comm, stream);
                                           }));
  return staging.CopyOut(all.data(), buffer, all.size());
}

Status NcclGroup::CloseHere() {
  // From here on a peer that leaves first is no error.
  if (closing_.exchange(true)) return OkStatus();
  float one = 1;
  MUSTER_RETURN_IF_ERROR(
      Reduce("the last barrier", SteadyNow() + kCloseTimeout, std::span(&one, 1)));
  communicator_.Finish(kCloseTimeout);
  return OkStatus();
}

// ------------------------------------------------------------------------------- the watch

void NcclGroup::WatchErrors(const std::stop_token& stop) {
  std::mutex mutex;
  std::condition_variable_any wake;
  std::unique_lock lock(mutex);
  while (!stop.stop_requested()) {
    wake.wait_for(lock, stop, kWatchPeriod, [] { return false; });
    if (stop_.stop_requested()) {
      communicator_.Rescue(kCallPatience);
    } else if (formed_ && !closing_) {
      if (const Status error = communicator_.PollError(); !error.ok()) {
        Abort(error.With(label_));
      }
    }
  }
}

}  // namespace

Result<std::unique_ptr<ProcessGroup>> CreateNcclGroup(session::Session& session,
                                                      const session::RoundInfo& info,
                                                      const NcclOptions& options,
                                                      const std::stop_token& stop) {
  MUSTER_ASSIGN_OR_RETURN(const nccl::Api* nccl, nccl::Load(options.nccl_library));
  MUSTER_ASSIGN_OR_RETURN(const cuda::Api* cuda, LoadCuda(options, *nccl));
  auto group = std::make_unique<NcclGroup>(*nccl, *cuda, info, options);
  const std::stop_callback on_stop(
      stop, [raw = group.get()] { raw->Abort(Aborted("forming the process group was given up")); });
  MUSTER_RETURN_IF_ERROR(group->Form(session));
  return std::unique_ptr<ProcessGroup>(std::move(group));
}

}  // namespace muster::comm
