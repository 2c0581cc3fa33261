#include "rendezvousd/server/state_writer.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <deque>
#include <mutex>
#include <string_view>
#include <utility>

#include "common/text.h"
#include "rendezvousd/server/view_json.h"

namespace muster::server {
namespace {

std::int64_t UnixMs() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

// Writes and closes; the file is on disk afterwards if `durable`.
Status WriteOut(const std::string& path, int flags, std::string_view bytes, bool durable) {
  const int fd = open(path.c_str(), flags | O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) return FromErrno(errno, "cannot open " + path);
  while (!bytes.empty()) {
    const ssize_t written = write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      const int error = errno;
      close(fd);
      return FromErrno(error, "cannot write " + path);
    }
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  const bool synced = !durable || fsync(fd) == 0;
  const int sync_error = errno;
  // A shared file system may tell only now that there was no room.
  if (close(fd) != 0) return FromErrno(errno, "cannot close " + path);
  return synced ? OkStatus() : FromErrno(sync_error, "cannot sync " + path);
}

Status Replace(const std::string& path, std::string_view bytes, bool durable) {
  const std::string fresh = path + ".new";
  MUSTER_RETURN_IF_ERROR(WriteOut(fresh, O_TRUNC, bytes, durable));
  if (rename(fresh.c_str(), path.c_str()) != 0) return FromErrno(errno, "cannot rename to " + path);
  return OkStatus();
}

Status MakeFolder(const std::string& folder) {
  if (mkdir(folder.c_str(), 0700) == 0 || errno == EEXIST) return OkStatus();
  return FromErrno(errno, "cannot make the state folder " + folder);
}

}  // namespace

struct StateWriter::Shared {
  void Run();
  Status WriteFiles(const std::map<std::string, std::string>& files, std::string_view events);

  std::string folder;
  std::uint32_t attempt = 0;

  mutable std::mutex mutex;
  std::condition_variable changed;
  std::map<std::string, std::string> files;  // newest content by name
  std::deque<std::string> events;
  std::size_t event_bytes = 0;
  std::uint64_t lost_events = 0;
  bool writing = false;
  bool ending = false;
  TimePoint writing_since{};
  Status trouble;
};

Status StateWriter::Shared::WriteFiles(const std::map<std::string, std::string>& contents,
                                       std::string_view lines) {
  MUSTER_RETURN_IF_ERROR(MakeFolder(folder));
  Status first;
  const auto keep = [&first](Status status) {
    if (first.ok()) first = std::move(status);
  };
  if (!lines.empty()) {
    keep(WriteOut(Concat(folder, "/events-", attempt, ".jsonl"), O_APPEND, lines, false));
  }
  for (const auto& [name, content] : contents) {
    keep(Replace(folder + "/" + name, content, name != "status.json"));
  }
  return first;
}

void StateWriter::Shared::Run() {
  std::unique_lock lock(mutex);
  while (true) {
    changed.wait(lock, [this] { return ending || !files.empty() || !events.empty(); });
    if (files.empty() && events.empty()) return;
    const auto contents = std::exchange(files, {});
    std::string lines;
    lines.reserve(event_bytes);
    for (const std::string& event : events) lines += event;
    events.clear();
    event_bytes = 0;
    writing = true;
    writing_since = SteadyNow();
    lock.unlock();
    Status status = WriteFiles(contents, lines);
    lock.lock();
    writing = false;
    if (lost_events > 0 && status.ok()) {
      status = DataLoss(Concat(std::exchange(lost_events, 0), " events were lost while ", folder,
                               " could not be written"));
    }
    trouble = std::move(status);
    changed.notify_all();
  }
}

StateWriter::StateWriter(std::string folder, std::uint32_t attempt)
    : shared_(std::make_shared<Shared>()) {
  shared_->folder = std::move(folder);
  shared_->attempt = attempt;
  if (shared_->folder.empty()) return;
  thread_ = std::thread([shared = shared_] { shared->Run(); });
}

StateWriter::~StateWriter() {
  if (!thread_.joinable()) return;
  const bool flushed = Flush(kWriteDeadline);
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->ending = true;
    shared_->changed.notify_all();
    if (!flushed && shared_->writing) {
      thread_.detach();  // it hangs in the kernel; it holds its own share of the state
      return;
    }
  }
  thread_.join();
}

void StateWriter::WriteStatus(const protocol::RunView& view) {
  if (shared_->folder.empty()) return;
  std::string text = StatusJson(view, UnixMs());
  const std::lock_guard lock(shared_->mutex);
  shared_->files["status.json"] = std::move(text);
  shared_->changed.notify_all();
}

void StateWriter::AppendEvent(const protocol::EventRecord& record) {
  if (shared_->folder.empty()) return;
  protocol::EventRecord stamped = record;
  stamped.unix_ms = UnixMs();
  std::string line = EventJson(stamped) + "\n";
  const std::lock_guard lock(shared_->mutex);
  shared_->event_bytes += line.size();
  shared_->events.push_back(std::move(line));
  while (shared_->event_bytes > kWaitingEventBytesMax) {
    shared_->event_bytes -= shared_->events.front().size();
    shared_->events.pop_front();
    ++shared_->lost_events;
  }
  shared_->changed.notify_all();
}

void StateWriter::WriteVerdict(const protocol::RunView& view) {
  if (shared_->folder.empty()) return;
  std::string text = VerdictJson(view, UnixMs());
  const std::lock_guard lock(shared_->mutex);
  shared_->files[Concat("verdict-", shared_->attempt, ".json")] = std::move(text);
  shared_->changed.notify_all();
}

void StateWriter::WriteHandover(const protocol::RunView& view) {
  if (shared_->folder.empty()) return;
  std::string text = HandoverJson(view, UnixMs());
  const std::lock_guard lock(shared_->mutex);
  shared_->files[Concat("handover-", shared_->attempt, ".json")] = std::move(text);
  shared_->changed.notify_all();
}

bool StateWriter::Flush(Duration limit) {
  std::unique_lock lock(shared_->mutex);
  const bool done = shared_->changed.wait_for(lock, limit, [this] {
    return !shared_->writing && shared_->files.empty() && shared_->events.empty();
  });
  return done && shared_->trouble.ok();
}

Status StateWriter::Trouble() const {
  const std::lock_guard lock(shared_->mutex);
  const Duration since = SteadyNow() - shared_->writing_since;
  if (shared_->writing && since > kWriteDeadline) {
    return Unavailable(Concat("the state folder ", shared_->folder, " has not taken a write for ",
                              DescribeDuration(since), "; the run goes on without it"));
  }
  return shared_->trouble;
}

}  // namespace muster::server
