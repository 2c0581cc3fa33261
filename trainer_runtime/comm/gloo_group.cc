#include "trainer_runtime/comm/gloo_group.h"

#include <csignal>
#include <utility>

#include "common/check.h"
#include "trainer_runtime/comm/gloo_collectives.h"
#include "trainer_runtime/comm/gloo_mesh.h"
#include "trainer_runtime/comm/work_queue.h"

namespace muster::comm {
namespace {

// For a peer that is past its last operation too: it answers or is gone.
constexpr Duration kCloseTimeout = std::chrono::seconds(2);

void IgnoreSigpipe() {
  struct sigaction now {};
  if (sigaction(SIGPIPE, nullptr, &now) == 0 && now.sa_handler == SIG_DFL) {
    signal(SIGPIPE, SIG_IGN);
  }
}

class GlooGroup final : public ProcessGroup {
 public:
  explicit GlooGroup(std::unique_ptr<GlooMesh> mesh)
      : ProcessGroup(mesh->rank(), mesh->size()),
        mesh_(std::move(mesh)),
        collectives_(*mesh_),
        queue_([this] { mesh_->CloseConnections(); }) {}

  ~GlooGroup() override {
    watch_.Cancel();
    mesh_->StopWatching();
    Abort(Aborted("the process group was destroyed"));
  }

  void Watch(session::Session& session, session::RoundId round) {
    mesh_->StartWatching([this](const Status& reason) { Abort(reason); });
    watch_ = session.WatchRound(round, [this](const Status& reason) { Abort(reason); });
  }

  Work AllReduce(std::span<float> values) override {
    return queue_.Push([this, values] { return collectives_.AllReduce(values); });
  }
  Work Broadcast(std::span<std::byte> bytes, int root) override {
    MUSTER_CHECK(root >= 0 && root < size(), "the root of a broadcast is a rank of the group");
    return queue_.Push([this, bytes, root] { return collectives_.Broadcast(bytes, root); });
  }
  Work AllGather(std::span<const std::byte> own, std::span<std::byte> all) override {
    MUSTER_CHECK(all.size() == own.size() * static_cast<std::size_t>(size()),
                 "an all-gather's result has room for one part of each rank");
    return queue_.Push([this, own, all] { return collectives_.AllGather(own, all); });
  }
  Work Barrier() override {
    return queue_.Push([this] { return collectives_.Barrier(); });
  }

  void Abort(const Status& reason) override {
    queue_.Break(reason);
    mesh_->Abort(reason);
  }
  Status state() const override { return queue_.state(); }

  void Close() override {
    watch_.Cancel();
    // Whoever passes the first barrier knows that all have come to it, so a peer's leaving is no
    // failure any more. A socket closed with unread bytes resets the peer, so nobody closes before
    // all have passed: hence the second.
    for (int i = 0; i < 2; ++i) {
      const Work work = queue_.Push([this] {
        mesh_->SetTransferTimeout(kCloseTimeout);
        return collectives_.Barrier();
      });
      const Status status = work.Wait();
      mesh_->StopWatching();
      if (!status.ok()) return;
    }
  }

 private:
  std::unique_ptr<GlooMesh> mesh_;
  GlooCollectives collectives_;
  WorkQueue queue_;            // joined before the mesh goes
  session::RoundWatch watch_;  // last: no callback into a half-destroyed group
};

}  // namespace

Result<std::unique_ptr<ProcessGroup>> CreateGlooGroup(session::Session& session,
                                                      const session::RoundInfo& info,
                                                      const GlooOptions& options,
                                                      const std::stop_token& stop) {
  IgnoreSigpipe();
  auto mesh =
      std::make_unique<GlooMesh>(static_cast<int>(info.rank), static_cast<int>(info.world_size));
  if (info.world_size > 1) {
    const session::RoundWatch watch = session.WatchRound(
        session::IdOf(info), [raw = mesh.get()](const Status& reason) { raw->Abort(reason); });
    const std::stop_callback on_stop(stop, [raw = mesh.get()] {
      raw->Abort(Aborted("forming the process group was given up"));
    });
    mesh->SetTransferTimeout(options.connect_timeout);  // of the greetings
    MUSTER_RETURN_IF_ERROR(mesh->Connect(session, info, options.name, options.connect_timeout));
    mesh->SetTransferTimeout(options.transfer_timeout);
  }
  auto group = std::make_unique<GlooGroup>(std::move(mesh));
  group->Watch(session, session::IdOf(info));
  return std::unique_ptr<ProcessGroup>(std::move(group));
}

}  // namespace muster::comm
