#pragma once

// The files in the state folder, written by a thread of their own: a shared folder that stalls, is
// full or read-only delays these files and nothing else. What could not be written is tried again.
//
//   status.json            what people are shown now; replaced by rename
//   events-ATTEMPT.jsonl   the attempt's history, appended
//   verdict-ATTEMPT.json   how the attempt ended
//   handover-ATTEMPT.json  the little that the next attempt needs
//
// Folder 0700, files 0600. No file but status.json is written by two attempts; the newest attempt
// is found by listing. Thread-safe.

#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "common/status.h"
#include "common/time.h"
#include "rendezvousd/protocol/messages.h"

namespace muster::server {

// Events that wait for a stalled folder; above it the oldest are lost and counted.
inline constexpr std::size_t kWaitingEventBytesMax = std::size_t{16} << 20U;
// A write that takes longer is told to people.
inline constexpr Duration kWriteDeadline = std::chrono::seconds(2);

class StateWriter {
 public:
  // An empty folder name: nothing is written. The folder is made if it is missing.
  StateWriter(std::string folder, std::uint32_t attempt);
  // Leaves a stalled thread behind.
  ~StateWriter();
  StateWriter(const StateWriter&) = delete;
  StateWriter& operator=(const StateWriter&) = delete;

  void WriteStatus(const protocol::RunView& view);
  void AppendEvent(const protocol::EventRecord& record);
  void WriteVerdict(const protocol::RunView& view);
  void WriteHandover(const protocol::RunView& view);

  // Waits until everything is written; false if that took longer or failed.
  bool Flush(Duration limit);
  // What is wrong with the folder now, OK if nothing: the last failure, or a write that stalls.
  Status Trouble() const;

 private:
  struct Shared;
  const std::shared_ptr<Shared> shared_;
  std::thread thread_;
};

}  // namespace muster::server
