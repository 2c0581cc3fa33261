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

// After a failure the folder is tried again so often, or when there is something new to write.
constexpr Duration kRetryPause = std::chrono::seconds(1);

// Writes and closes; the file is on disk afterwards if `durable`. After a failure `done` says how
// much of it went out.
Status WriteOut(const std::string& path, int flags, std::string_view bytes, bool durable,
                std::size_t* done = nullptr) {
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
    if (done != nullptr) *done += static_cast<std::size_t>(written);
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
  using Files = std::map<std::string, std::string>;  // content by name

  void Run();
  // Takes out of its arguments what it has written.
  Status WriteFiles(Files* contents, std::string* lines) const;
  // What could not be written waits on, in front of what has come since. REQUIRES mutex.
  void PutBack(Files contents, std::string lines);
  void Put(std::string name, std::string content);
  // There is something new to write. REQUIRES mutex.
  void Wake();
  // Keeps the waiting events below their bound. REQUIRES mutex.
  void DropOldest();
  bool Idle() const { return !writing && files.empty() && events.empty(); }

  std::string folder;
  std::uint32_t attempt = 0;

  mutable std::mutex mutex;
  std::condition_variable changed;
  Files files;  // newest content
  std::deque<std::string> events;
  std::size_t event_bytes = 0;
  std::uint64_t lost_events = 0;
  bool writing = false;
  bool retrying = false;  // what is here could not be written; nothing has come since
  bool ending = false;
  TimePoint writing_since{};
  Status trouble;
};

Status StateWriter::Shared::WriteFiles(Files* contents, std::string* lines) const {
  MUSTER_RETURN_IF_ERROR(MakeFolder(folder));
  Status first;
  const auto keep = [&first](Status status) {
    if (first.ok()) first = std::move(status);
  };
  if (!lines->empty()) {
    std::size_t done = 0;
    const std::string path = Concat(folder, "/events-", attempt, ".jsonl");
    keep(WriteOut(path, O_APPEND, *lines, false, &done));
    lines->erase(0, done);  // the rest goes on where this ended, be it within a line
  }
  for (auto file = contents->begin(); file != contents->end();) {
    const auto& [name, content] = *file;
    Status status = Replace(folder + "/" + name, content, name != "status.json");
    file = status.ok() ? contents->erase(file) : std::next(file);
    keep(std::move(status));
  }
  return first;
}

void StateWriter::Shared::Put(std::string name, std::string content) {
  const std::lock_guard lock(mutex);
  files[std::move(name)] = std::move(content);
  Wake();
}

void StateWriter::Shared::Wake() {
  retrying = false;
  changed.notify_all();
}

void StateWriter::Shared::DropOldest() {
  while (event_bytes > kWaitingEventBytesMax) {
    event_bytes -= events.front().size();
    events.pop_front();
    ++lost_events;
  }
}

void StateWriter::Shared::PutBack(Files contents, std::string lines) {
  const bool more = !contents.empty() || !lines.empty();
  retrying = more && files.empty() && events.empty();
  files.merge(contents);  // what is there is newer
  event_bytes += lines.size();
  for (std::size_t end = lines.size(); end > 0;) {  // line by line, so that the lost are counted
    const std::size_t feed = end < 2 ? std::string::npos : lines.rfind('\n', end - 2);
    const std::size_t begin = feed == std::string::npos ? 0 : feed + 1;
    events.push_front(lines.substr(begin, end - begin));
    end = begin;
  }
  DropOldest();
}

void StateWriter::Shared::Run() {
  std::unique_lock lock(mutex);
  while (true) {
    const auto due = [this] { return ending || (!retrying && !Idle()); };
    if (retrying) {
      changed.wait_for(lock, kRetryPause, due);
    } else {
      changed.wait(lock, due);
    }
    if (ending && (retrying || Idle())) return;
    auto contents = std::exchange(files, {});
    std::string lines;
    lines.reserve(event_bytes);
    for (const std::string& event : events) lines += event;
    events.clear();
    event_bytes = 0;
    retrying = false;
    writing = true;
    writing_since = SteadyNow();
    lock.unlock();
    Status status = WriteFiles(&contents, &lines);
    lock.lock();
    writing = false;
    if (!status.ok()) PutBack(std::move(contents), std::move(lines));
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
  shared_->Put("status.json", StatusJson(view, UnixMs()));
}

void StateWriter::AppendEvent(const protocol::EventRecord& record) {
  if (shared_->folder.empty()) return;
  protocol::EventRecord stamped = record;
  stamped.unix_ms = UnixMs();
  std::string line = EventJson(stamped) + "\n";
  const std::lock_guard lock(shared_->mutex);
  shared_->event_bytes += line.size();
  shared_->events.push_back(std::move(line));
  shared_->DropOldest();
  shared_->Wake();
}

void StateWriter::WriteVerdict(const protocol::RunView& view) {
  if (shared_->folder.empty()) return;
  shared_->Put(Concat("verdict-", shared_->attempt, ".json"), VerdictJson(view, UnixMs()));
}

void StateWriter::WriteHandover(const protocol::RunView& view) {
  if (shared_->folder.empty()) return;
  shared_->Put(Concat("handover-", shared_->attempt, ".json"), HandoverJson(view, UnixMs()));
}

bool StateWriter::Flush(Duration limit) {
  std::unique_lock lock(shared_->mutex);
  const bool done = shared_->changed.wait_for(
      lock, limit, [this] { return shared_->Idle() || shared_->retrying; });
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
