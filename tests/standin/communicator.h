#pragma once

// Communicator: one rank's end of a communicator of the stand-in, with NCCL's states.
//
// Operations run on the threads of CUDA's streams, in the order in which they were launched. As
// with NCCL an operation that fails does not come to its end: its stream stands until the
// communicator is aborted or revoked, and ncclCommGetAsyncError says why. A communicator that does
// not block launches an operation only when it is asked for its state: programs that forget to ask
// are found out. Thread-safe.

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tests/standin/bootstrap.h"
#include "tests/standin/collectives.h"
#include "tests/standin/knobs.h"
#include "tests/standin/mesh.h"
#include "trainer_runtime/comm/cuda_api.h"

namespace muster::standin {

class Communicator : public std::enable_shared_from_this<Communicator> {
 public:
  struct Settings {
    int rank = 0, size = 1, device = 0;
    bool blocking = true;
    std::string name;
  };

  explicit Communicator(const Settings& settings);
  ~Communicator();

  const Settings& settings() const { return settings_; }

  // Begin forming on a thread of their own; WaitFormed gives the result.
  void StartFromId(const UniqueId& id);
  // Of the members of `parent` with the same color, ordered by key; called by all of them.
  void StartSplit(const std::shared_ptr<Communicator>& parent, int color, int key);
  // Of `parent` without the excluded; called by the others alone.
  void StartShrink(const std::shared_ptr<Communicator>& parent, const std::vector<int>& excluded);
  Code WaitFormed();

  // Whether an operation may be enqueued now.
  Code Ready(const char* name);
  // What one group gives this communicator on one stream.
  Code Launch(comm::cuda::Stream stream, std::vector<Operation> operations);
  Code AsyncError();

  Code Finalize();
  Code Destroy();
  Code Abort();
  Code Revoke();
  // Ends operations in flight, so that a shrink can follow.
  void Interrupt() { interrupt_.Set(); }

 private:
  struct Batch {
    comm::cuda::Stream stream = nullptr;
    std::vector<Operation> operations;
    std::uint64_t ticket = 0;
  };
  struct Launched;

  void StartThread(std::function<Code()> form);
  Code FormFromId(const UniqueId& id);
  Code FormChild(std::uint64_t hash, int rank, int size, std::vector<Address> addresses,
                 std::shared_ptr<Listener> listener);
  Code GatherSplit(Communicator& parent, std::uint64_t hash, int color, int key,
                   std::vector<std::pair<int, int>>* all);
  Code ConnectMesh(std::uint64_t hash, std::vector<Address> addresses);
  void WaitQuiet(std::unique_lock<std::mutex>& lock);

  void LaunchNow(Batch batch);  // REQUIRES mutex_
  void Run(const Batch& batch);
  Outcome RunOperations(const Batch& batch);
  Outcome Provoke();
  Code Fail(Code code, const std::string& text);

  Settings settings_;
  const Knobs knobs_;
  standin::Interrupt interrupt_;

  std::mutex mutex_;
  std::condition_variable changed_;
  Code formed_ = Code::kInProgress;
  Code error_ = Code::kSuccess;
  bool revoked_ = false, ended_ = false, finalized_ = false, from_id_ = false;
  UniqueId id_;
  std::uint64_t hash_ = 0;
  std::uint64_t children_ = 0;
  std::deque<Batch> unlaunched_;
  std::uint64_t tickets_ = 0;      // given out
  std::uint64_t next_ticket_ = 0;  // may run
  bool running_ = false;
  std::uint64_t operations_ = 0;  // run, all kinds
  std::uint64_t collectives_run_ = 0;

  std::shared_ptr<Listener> listener_;
  std::unique_ptr<Mesh> mesh_;
  std::unique_ptr<Collectives> collectives_;
  std::thread thread_;  // forming
};

}  // namespace muster::standin
