#pragma once

// What workers print: drained always, kept in files, shown merged, its last lines remembered.
//
// Workers never wait for a disk or a terminal: each of the three places (own stdout and stderr, the
// local folder, the shared one) has a thread and a bounded queue of its own; what does not fit is
// counted and said when there is room again. Only whole lines are shown. Lives on the supervisor's
// loop.

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "launcher/agent/bounded_log.h"
#include "launcher/agent/line_cutter.h"
#include "launcher/agent/supervisor_machine.h"
#include "launcher/agent/writer_thread.h"

namespace muster::agent {

enum class Stream { kOut, kErr };

// Lines of each worker that are remembered for the reason of its end.
inline constexpr std::size_t kLastLines = 50;
// Above this many ranks, one file per agent with prefixes: a shared folder bears no more files.
inline constexpr std::uint32_t kFilesPerRankMax = 64;

struct OutputOptions {
  std::string local_folder;   // "": no files there
  std::string shared_folder;  // "": no files there
  std::string agent_name;     // for one file per agent: "n3", "n3.task-2"
  std::uint32_t show_all_up_to = 8;
  int out_descriptor = 1;
  int err_descriptor = 2;
  LogLimits limits;
  // Some seconds of a loud world.
  std::size_t queue_bytes_max = 8U << 20U;
};

class Output {
 public:
  explicit Output(OutputOptions options);
  ~Output();
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;

  // From now on this worker's lines belong to this round: its file, its prefix.
  void BeginRound(const WorkerId& worker, const local::RoundInfo& round);
  void Append(const WorkerId& worker, Stream stream, std::string_view bytes, TimePoint now);
  // The worker's process has ended: an open last line is closed.
  void EndOfWorker(const WorkerId& worker, TimePoint now);
  void Forget(const WorkerId& worker);
  // Oldest first.
  std::vector<std::string> LastLines(const WorkerId& worker) const;
  // Shows the last lines of a failed worker that is not shown otherwise.
  void ShowFailure(const WorkerId& worker);
  // Writes out what is queued; true if the shared folder has everything.
  bool Finish(Duration limit);

 private:
  // Where lines go: one of the three places, with its own count of what was lost.
  struct Place;
  struct Worker;
  void OnLine(Worker& worker, Stream stream, std::string_view text, std::string_view raw,
              LineEnd end, TimePoint now);
  void FlushFiles(Worker& worker);
  void Show(Stream stream, std::string text);

  const OutputOptions options_;
  std::map<WorkerId, std::unique_ptr<Worker>> workers_;
  std::unique_ptr<Place> view_;
  std::unique_ptr<Place> local_;
  std::unique_ptr<Place> shared_;
  std::map<std::string, std::shared_ptr<BoundedLog>> agent_logs_;
};

}  // namespace muster::agent
