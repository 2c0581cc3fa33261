#include "launcher/agent/output.h"

#include <atomic>
#include <optional>

#include "common/log.h"
#include "common/text.h"

namespace muster::agent {
namespace {

// A progress bar is shown this often; its file has every state of it.
constexpr Duration kReturnPause = std::chrono::seconds(1);
// A remembered line is for a message, not for data.
constexpr std::size_t kRememberedBytes = 1000;

}  // namespace

struct Output::Place {
  // What the thread touches; it may outlive this object (see WriterThread::Stop).
  struct ThreadSide {
    std::string name;
    std::atomic<bool> failed = false;
    LogChanged changed;  // of the thread alone
  };

  Place(std::size_t bytes_max, std::string name)
      : side(std::make_shared<ThreadSide>()), thread(bytes_max) {
    side->name = std::move(name);
  }

  // `write` gets the bytes, with a note in front if some were lost before.
  void Push(std::string bytes, std::function<Status(std::string_view)> write) {
    if (bytes.empty()) return;
    std::string text;
    if (lost_bytes > 0) {
      text = Concat("muster: ", lost_bytes, " bytes of output are missing here: ", side->name,
                    " was too slow\n");
    }
    text += bytes;
    const std::size_t size = text.size();
    const auto job = [side = side, text = std::move(text), write = std::move(write)] {
      const Status status = write(text);
      if (status.ok()) {
        side->changed.Clear();
        return;
      }
      side->failed = true;
      side->changed.Say(LogLevel::kWarning,
                        Concat("output cannot be written to ", side->name, ": ", status.message()));
    };
    if (thread.Push(size, job)) {
      lost_bytes = 0;
    } else {
      lost_bytes += bytes.size();
      side->failed = true;
    }
  }

  const std::shared_ptr<ThreadSide> side;
  WriterThread thread;
  std::uint64_t lost_bytes = 0;
};

struct Output::Worker {
  LineCutter cutters[2];
  std::optional<protocol::Fence> fence;
  std::uint32_t rank = 0;
  std::string prefix;        // of lines in a shared view
  bool shown = false;        // all of its lines
  bool file_prefix = false;  // one file for several ranks
  std::shared_ptr<BoundedLog> local;
  std::shared_ptr<BoundedLog> shared;
  std::string file_bytes;  // lines of one read, written together
  std::string view_bytes[2];
  std::deque<std::string> last;
  TimePoint return_shown{};
};

Output::Output(OutputOptions options) : options_(std::move(options)) {
  view_ = std::make_unique<Place>(options_.queue_bytes_max, "the terminal or job output");
  if (!options_.local_folder.empty()) {
    local_ = std::make_unique<Place>(options_.queue_bytes_max, options_.local_folder);
  }
  if (!options_.shared_folder.empty()) {
    shared_ = std::make_unique<Place>(options_.queue_bytes_max, options_.shared_folder);
  }
}

Output::~Output() { Finish(Duration::zero()); }

void Output::BeginRound(const WorkerId& id, const local::RoundInfo& round) {
  std::unique_ptr<Worker>& worker = workers_[id];
  if (!worker) worker = std::make_unique<Worker>();
  const protocol::Fence fence{round.attempt, round.round};
  if (worker->fence == fence) return;
  worker->fence = fence;
  FlushFiles(*worker);
  worker->rank = round.rank;
  const bool all = round.world_size <= options_.show_all_up_to;
  worker->shown = all || round.rank == 0;
  worker->prefix = round.world_size > 1 && all ? Concat("[rank ", round.rank, "] ") : "";
  worker->file_prefix = round.world_size > kFilesPerRankMax;
  const std::string name =
      Concat("attempt-", round.attempt, "/",
             worker->file_prefix ? options_.agent_name : Concat("rank-", round.rank), ".round-",
             round.round, ".log");
  const auto open = [this, &name, &worker](const std::string& folder) {
    const std::string path = Concat(folder, "/", name);
    if (!worker->file_prefix) return std::make_shared<BoundedLog>(path, options_.limits);
    std::shared_ptr<BoundedLog>& log = agent_logs_[path];
    if (!log) log = std::make_shared<BoundedLog>(path, options_.limits);
    return log;
  };
  if (local_) worker->local = open(options_.local_folder);
  if (shared_) worker->shared = open(options_.shared_folder);
}

void Output::Append(const WorkerId& id, Stream stream, std::string_view bytes, TimePoint now) {
  const auto found = workers_.find(id);
  if (found == workers_.end()) return;
  Worker& worker = *found->second;
  worker.cutters[static_cast<int>(stream)].Append(
      bytes, [&](std::string_view text, std::string_view raw, LineEnd end) {
        OnLine(worker, stream, text, raw, end, now);
      });
  FlushFiles(worker);
}

void Output::EndOfWorker(const WorkerId& id, TimePoint now) {
  const auto found = workers_.find(id);
  if (found == workers_.end()) return;
  Worker& worker = *found->second;
  for (const Stream stream : {Stream::kOut, Stream::kErr}) {
    worker.cutters[static_cast<int>(stream)].Flush(
        [&](std::string_view text, std::string_view raw, LineEnd /*end*/) {
          const std::string closed = Concat(raw, "\n");
          OnLine(worker, stream, text, closed, LineEnd::kNewline, now);
        });
  }
  FlushFiles(worker);
}

void Output::Forget(const WorkerId& worker) { workers_.erase(worker); }

void Output::OnLine(Worker& worker, Stream stream, std::string_view text, std::string_view raw,
                    LineEnd end, TimePoint now) {
  if (worker.file_prefix) {
    worker.file_bytes += Concat("[rank ", worker.rank, "] ", text, "\n");
  } else {
    worker.file_bytes += raw;
  }
  if (!Trim(text).empty()) {
    worker.last.emplace_back(text.substr(0, kRememberedBytes));
    if (worker.last.size() > kLastLines) worker.last.pop_front();
  }
  if (!worker.shown) return;
  if (end == LineEnd::kReturn) {
    if (text.empty() || now - worker.return_shown < kReturnPause) return;
    worker.return_shown = now;
  }
  std::string& view = worker.view_bytes[static_cast<int>(stream)];
  view += worker.prefix;
  view += text;
  view += '\n';
}

void Output::Show(Stream stream, std::string text) {
  const int descriptor = stream == Stream::kOut ? options_.out_descriptor : options_.err_descriptor;
  view_->Push(std::move(text),
              [descriptor](std::string_view bytes) { return WriteAll(descriptor, bytes); });
}

void Output::FlushFiles(Worker& worker) {
  for (const Stream stream : {Stream::kOut, Stream::kErr}) {
    Show(stream, std::exchange(worker.view_bytes[static_cast<int>(stream)], {}));
  }
  if (worker.file_bytes.empty()) return;
  const auto write = [](std::shared_ptr<BoundedLog> log) {
    return [log = std::move(log)](std::string_view bytes) {
      const std::string& path = log->path();
      MUSTER_RETURN_IF_ERROR(MakeFolders(path.substr(0, path.rfind('/'))));
      return log->Append(bytes);
    };
  };
  if (worker.local) local_->Push(worker.file_bytes, write(worker.local));
  if (worker.shared) shared_->Push(worker.file_bytes, write(worker.shared));
  worker.file_bytes.clear();
}

std::vector<std::string> Output::LastLines(const WorkerId& id) const {
  const auto found = workers_.find(id);
  if (found == workers_.end()) return {};
  return {found->second->last.begin(), found->second->last.end()};
}

void Output::ShowFailure(const WorkerId& id) {
  const auto found = workers_.find(id);
  if (found == workers_.end() || found->second->shown) return;
  const Worker& worker = *found->second;
  std::string text;
  for (const std::string& line : worker.last) {
    text += Concat("[rank ", worker.rank, "] ", line, "\n");
  }
  Show(Stream::kErr, std::move(text));
}

bool Output::Finish(Duration limit) {
  const TimePoint until = SteadyNow() + limit;
  for (auto& [id, worker] : workers_) FlushFiles(*worker);
  bool complete = shared_ != nullptr;
  for (Place* const place : {shared_.get(), local_.get(), view_.get()}) {
    if (place == nullptr) continue;
    const Duration left = std::max<Duration>(until - SteadyNow(), Duration::zero());
    const bool done = place->thread.Stop(left);
    if (place == shared_.get()) complete = done && !place->side->failed && place->lost_bytes == 0;
  }
  return complete;
}

}  // namespace muster::agent
