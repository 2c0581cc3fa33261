#pragma once

// GlooMesh: Gloo's TCP transport as a mesh of connections that can be given up from any thread.
//
// Addresses travel in the session's keys of the round, one key a rank. Every wait has a deadline
// and ends at once by Abort; Gloo's exceptions end here as a Status that names the peer. Gloo's own
// rendezvous::Context is not used: its connectFullMesh waits five time-outs for a peer that is gone
// and nothing can end it.
//
// Connect and transfers belong to one thread at a time, Abort to any. Used by gloo_group.cc and
// gloo_collectives.cc; no Gloo header shows here.

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "common/status.h"
#include "common/time.h"
#include "trainer_runtime/session/session.h"

namespace gloo::transport {
class Context;
class Device;
class UnboundBuffer;
}  // namespace gloo::transport

namespace muster::comm {

class GlooMesh {
 public:
  GlooMesh(int rank, int size);
  ~GlooMesh();
  GlooMesh(const GlooMesh&) = delete;
  GlooMesh& operator=(const GlooMesh&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }

  // Binds to the round's own address and connects to every rank; each end proves that it belongs to
  // the same round. `name` tells apart several meshes of one round.
  Status Connect(session::Session& session, const session::RoundInfo& info, const std::string& name,
                 Duration timeout);
  // How long one transfer may make no progress.
  void SetTransferTimeout(Duration timeout) { transfer_timeout_ = timeout; }

  // From now on `broken` is told, once and from a thread of the mesh's own, when a connection ends
  // that nobody here closed: also while no transfer runs, and for a send that Gloo has queued,
  // whose wait it forgets to end.
  void StartWatching(std::function<void(const Status&)> broken);
  // The peers may leave from now on. Not from `broken`.
  void StopWatching();

  // Ends every wait, now and later. Any thread.
  void Abort(const Status& reason);
  // Resets all connections: the peers' waits end too. Not while a Connect or a transfer runs.
  void CloseConnections();

  // Memory that takes part in transfers, sent from or received into. Completions come in the order
  // of posting as long as one peer is on each side. Destroy it before the memory goes.
  class Area {
   public:
    Area(GlooMesh& mesh, void* memory, std::size_t bytes);
    ~Area();
    Area(const Area&) = delete;
    Area& operator=(const Area&) = delete;

    // A send meets the receive with the same slot on the other side, which must be as long.
    Status Send(int peer, std::uint64_t slot, std::size_t offset, std::size_t bytes);
    Status Receive(int peer, std::uint64_t slot, std::size_t offset, std::size_t bytes);
    // One completion each. `peer` is for the message.
    Status WaitSend(int peer);
    Status WaitReceive(int peer);

   private:
    friend class GlooMesh;
    GlooMesh& mesh_;
    std::unique_ptr<gloo::transport::UnboundBuffer> buffer_;
    std::list<Area*>::iterator place_;
  };

  // Numbers operations, the same on all ranks: the upper part of their slots.
  std::uint64_t NextSlot() { return ++operations_ << kSlotBits; }
  // Messages of one operation: 2 * ranks * segments, with room for a terabyte.
  static constexpr int kSlotBits = 24;

 private:
  class Ticker;

  Status CreatePairs(const session::RoundInfo& info);
  std::string PackAddresses() const;
  Status ConnectPairs(const std::vector<std::string>& addresses);
  Status ExchangeGreetings(const session::RoundInfo& info);
  void Watch(const std::function<void(const Status&)>& broken);
  Status FindBroken(const std::string& what);
  Status aborted() const;
  Status Describe(int peer, const char* doing, const std::string& what) const;

  const int rank_, size_;
  Duration transfer_timeout_ = std::chrono::minutes(5);
  std::stop_source stop_;
  std::unique_ptr<Ticker> ticker_;
  std::shared_ptr<gloo::transport::Device> device_;
  std::shared_ptr<gloo::transport::Context> context_;
  std::uint64_t operations_ = 0;

  mutable std::mutex mutex_;
  Status aborted_;
  int connecting_ = -1;  // the peer whose connection is awaited
  std::list<Area*> areas_;

  std::vector<char> watched_;  // a byte of each rank that never comes
  std::unique_ptr<Area> watch_area_;
  std::jthread watcher_;
};

}  // namespace muster::comm
