#pragma once

// Reporter: what rank 0 says: lines for people on stdout, events for machines as JSON lines.
//
// An event is one write to a file open for appending, so that a new process on rank 0 goes on where
// a killed one left off. Thread-safe. A file that cannot be written is said once.

#include <cstdint>
#include <mutex>
#include <string>

#include "common/status.h"
#include "common/time.h"
#include "trainer_runtime/muster_train/checkpointer.h"
#include "trainer_runtime/session/session.h"

namespace muster::train_program {

struct StepReport {
  std::uint64_t step = 0;
  double loss = 0;
  Duration time{};
  std::uint64_t tokens = 0;  // of all ranks
};

class Reporter {
 public:
  explicit Reporter(const Options& options);
  ~Reporter();
  Reporter(const Reporter&) = delete;
  Reporter& operator=(const Reporter&) = delete;

  // Begins a round; only rank 0 speaks.
  void EnterRound(const session::RoundInfo& info, std::uint64_t parameters);
  // Where the state came from: "rank 2", "checkpoint PATH", "seed 1", "this process".
  void Resume(const std::string& from, std::uint64_t step, double last_loss);
  void Step(const StepReport& report);
  void Checkpoint(const Saved& saved);
  void Line(const std::string& text);

 private:
  void Event(const std::string& name, const std::string& fields);
  void OpenEvents();

  const Options& options_;
  std::mutex mutex_;
  session::RoundInfo info_;
  bool speaks_ = false;
  int file_ = -1;
  bool told_ = false;
  std::uint64_t highest_step_ = 0;  // that was ever reported, by this process or one before it
  Duration time_since_line_{};
  std::uint64_t steps_since_line_ = 0;
};

}  // namespace muster::train_program
