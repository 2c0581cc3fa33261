#include "rendezvousd/server/journal.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "common/log.h"
#include "common/text.h"
#include "rendezvousd/protocol/start_options.h"

namespace muster::server {
namespace {

constexpr std::string_view kMagic = "MUSTERJ\n";
constexpr std::string_view kMarker = "\xB5REC";
constexpr std::size_t kHeadBytes = 8 + 4 + 4 + 4 + 8;        // before the JSON text
constexpr std::size_t kRecordHeadBytes = 4 + 4 + 8 + 8 + 8;  // before the payload
constexpr off_t kFlagsOffset = 12;
constexpr std::uint32_t kIncomplete = 1;  // a flag: records are missing behind the last one

template <typename T>
void Append(std::string* out, T value) {
  char raw[sizeof(T)];
  std::memcpy(raw, &value, sizeof(T));
  out->append(raw, sizeof(T));
}

template <typename T>
T Load(std::string_view bytes, std::size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

std::uint64_t Checksum(std::uint64_t index, std::int64_t time, std::string_view payload) {
  const std::uint64_t seed = index * 0x9E3779B97F4A7C15U ^ static_cast<std::uint64_t>(time);
  return XXH3_64bits_withSeed(payload.data(), payload.size(), seed);
}

// The file's bytes, mapped for reading.
class Mapping {
 public:
  Mapping() = default;
  ~Mapping() {
    if (data_ != nullptr) munmap(data_, size_);
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  Status Map(int fd, const std::string& path) {
    struct stat info {};
    if (fstat(fd, &info) != 0) return FromErrno(errno, "cannot look at the journal " + path);
    size_ = static_cast<std::size_t>(info.st_size);
    if (size_ == 0) return OkStatus();
    void* data = mmap(nullptr, size_, PROT_READ, MAP_SHARED, fd, 0);
    if (data == MAP_FAILED) return FromErrno(errno, "cannot map the journal " + path);
    data_ = data;
    return OkStatus();
  }
  std::string_view bytes() const { return {static_cast<const char*>(data_), size_}; }

 private:
  void* data_ = nullptr;
  std::size_t size_ = 0;
};

std::string HeadText(const JournalHead& head) {
  nlohmann::json text;
  text["boot_id"] = head.boot_id;
  text["config"] = nlohmann::json::parse(protocol::ToJson(head.config));
  return text.dump();
}

Result<JournalHead> ParseHeadText(std::string_view text) {
  const auto json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_object() || !json.contains("boot_id") || !json["boot_id"].is_string() ||
      !json.contains("config")) {
    return DataLoss("its head is not what this daemon writes");
  }
  JournalHead head;
  head.boot_id = json["boot_id"].get<std::string>();
  MUSTER_ASSIGN_OR_RETURN(head.config, protocol::ConfigFromJson(json["config"].dump()));
  return head;
}

enum class HeadState { kGood, kTorn };

// Torn: the file ends within the head, so nothing was ever built on it.
Result<HeadState> ParseHead(const std::string& path, std::string_view bytes, JournalScan* scan) {
  const std::size_t compared = std::min(bytes.size(), kMagic.size());
  if (bytes.substr(0, compared) != kMagic.substr(0, compared)) {
    return DataLoss(Concat("the journal ", path, " is not a journal of muster"));
  }
  if (bytes.size() < kHeadBytes) return HeadState::kTorn;
  const auto format = Load<std::uint32_t>(bytes, 8);
  const auto flags = Load<std::uint32_t>(bytes, 12);
  const auto length = Load<std::uint32_t>(bytes, 16);
  const auto checksum = Load<std::uint64_t>(bytes, 20);
  if (format > kJournalFormat) {
    return FailedPrecondition(Concat("the journal ", path, " has format ", format,
                                     ", this program reads up to ", kJournalFormat,
                                     ": use the program that started the run"));
  }
  if (bytes.size() < kHeadBytes + length) return HeadState::kTorn;
  const std::string_view text = bytes.substr(kHeadBytes, length);
  if (XXH3_64bits(text.data(), text.size()) != checksum || format == 0) {
    return DataLoss(
        Concat("the journal ", path, " is damaged in its head (offset ", kHeadBytes, ")"));
  }
  if ((flags & kIncomplete) != 0) {
    return FailedPrecondition(Concat("the journal ", path,
                                     " is incomplete: the disk took no more of it. The run can go "
                                     "on in its next attempt only"));
  }
  auto head = ParseHeadText(text);
  if (!head.ok()) return head.status().With(Concat("the journal ", path));
  scan->head = std::move(*head);
  scan->good_bytes = kHeadBytes + length;
  return HeadState::kGood;
}

// The record at `offset`, if a whole and sound one is there.
bool ParseRecord(std::string_view bytes, std::uint64_t offset, JournalRecord* record) {
  if (offset > bytes.size() || bytes.size() - offset < kRecordHeadBytes) return false;
  const std::string_view rest = bytes.substr(offset);
  if (rest.substr(0, kMarker.size()) != kMarker) return false;
  const auto length = Load<std::uint32_t>(rest, 4);
  if (length > kRecordBytesMax || rest.size() - kRecordHeadBytes < length) return false;
  const auto time = Load<std::int64_t>(rest, 16);
  record->index = Load<std::uint64_t>(rest, 8);
  record->offset = offset;
  record->time = TimePoint(Duration(time));
  record->payload = rest.substr(kRecordHeadBytes, length);
  return Load<std::uint64_t>(rest, 24) == Checksum(record->index, time, record->payload);
}

// True if a good record with a later index stands anywhere behind `offset`.
bool GoodRecordBehind(std::string_view bytes, std::uint64_t offset, std::uint64_t index) {
  std::size_t at = bytes.find(kMarker, offset + 1);
  for (; at != std::string_view::npos; at = bytes.find(kMarker, at + 1)) {
    JournalRecord record;
    if (ParseRecord(bytes, at, &record) && record.index > index) return true;
  }
  return false;
}

// REQUIRES a good head in `scan`.
Status ParseRecords(const std::string& path, std::string_view bytes, const RecordVisitor& visit,
                    JournalScan* scan) {
  while (scan->good_bytes < bytes.size()) {
    JournalRecord record;
    if (!ParseRecord(bytes, scan->good_bytes, &record) || record.index != scan->records) {
      if (GoodRecordBehind(bytes, scan->good_bytes, scan->records)) {
        return DataLoss(Concat("the journal ", path, " is damaged at offset ", scan->good_bytes,
                               " (record ", scan->records, "), with good records behind it"));
      }
      scan->torn_bytes = bytes.size() - scan->good_bytes;
      return OkStatus();
    }
    if (visit) MUSTER_RETURN_IF_ERROR(visit(record));
    scan->good_bytes += kRecordHeadBytes + record.payload.size();
    ++scan->records;
  }
  return OkStatus();
}

Status WriteAll(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return FromErrno(errno, "write");
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return OkStatus();
}

Status Lock(int fd, const std::string& path) {
  while (flock(fd, LOCK_EX | LOCK_NB) != 0) {
    if (errno == EINTR) continue;
    if (errno == EWOULDBLOCK) {
      return Unavailable(Concat("another rendezvousd has the journal ", path,
                                ": end it first, two would each lead the run"));
    }
    return FromErrno(errno, "cannot lock the journal " + path);
  }
  return OkStatus();
}

}  // namespace

Result<JournalScan> ReadJournal(const std::string& path, const RecordVisitor& visit) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return FromErrno(errno, "cannot open the journal " + path);
  Mapping mapping;
  const Status mapped = mapping.Map(fd, path);
  close(fd);
  MUSTER_RETURN_IF_ERROR(mapped);
  JournalScan scan;
  MUSTER_ASSIGN_OR_RETURN(const HeadState state, ParseHead(path, mapping.bytes(), &scan));
  if (state == HeadState::kTorn)
    return DataLoss(Concat("the journal ", path, " has no whole head"));
  MUSTER_RETURN_IF_ERROR(ParseRecords(path, mapping.bytes(), visit, &scan));
  return scan;
}

Result<std::unique_ptr<Journal>> Journal::Open(const std::string& path, const JournalHead& head) {
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (fd < 0) return FromErrno(errno, "cannot open the journal " + path);
  std::unique_ptr<Journal> journal(new Journal(path, fd));
  MUSTER_RETURN_IF_ERROR(Lock(fd, path));
  HeadState state = HeadState::kTorn;
  {
    Mapping mapping;
    MUSTER_RETURN_IF_ERROR(mapping.Map(fd, path));
    MUSTER_ASSIGN_OR_RETURN(state, ParseHead(path, mapping.bytes(), &journal->scan_));
    if (state == HeadState::kGood) {
      MUSTER_RETURN_IF_ERROR(ParseRecords(path, mapping.bytes(), nullptr, &journal->scan_));
    }
  }
  MUSTER_RETURN_IF_ERROR(state == HeadState::kTorn ? journal->Create(head) : journal->Adopt(head));
  journal->next_index_ = journal->scan_.records;
  return journal;
}

Journal::~Journal() { close(fd_); }

Status Journal::Create(const JournalHead& head) {
  if (ftruncate(fd_, 0) != 0) return FromErrno(errno, "cannot empty the journal " + path_);
  const std::string text = HeadText(head);
  std::string bytes(kMagic);
  Append(&bytes, kJournalFormat);
  Append(&bytes, std::uint32_t{0});
  Append(&bytes, static_cast<std::uint32_t>(text.size()));
  Append(&bytes, static_cast<std::uint64_t>(XXH3_64bits(text.data(), text.size())));
  bytes += text;
  if (const Status written = WriteAll(fd_, bytes); !written.ok()) {
    return written.With("cannot write the journal " + path_);
  }
  scan_ = {head, 0, bytes.size(), 0};
  return OkStatus();
}

Status Journal::Adopt(const JournalHead& head) {
  const protocol::Config& old = scan_.head.config;
  if (old.run_id != head.config.run_id || old.attempt != head.config.attempt) {
    return FailedPrecondition(Concat("the journal ", path_, " is of run ", Quote(old.run_id),
                                     " attempt ", old.attempt, ", not of run ",
                                     Quote(head.config.run_id), " attempt ", head.config.attempt));
  }
  if (scan_.torn_bytes == 0) return OkStatus();
  LogWarning(Concat("the journal ", path_, " ends in a torn record: ", scan_.torn_bytes,
                    " bytes cut at offset ", scan_.good_bytes, ", after record ", scan_.records));
  if (ftruncate(fd_, static_cast<off_t>(scan_.good_bytes)) != 0) {
    return FromErrno(errno, "cannot cut the torn end of the journal " + path_);
  }
  return OkStatus();
}

Status Journal::Replay(const RecordVisitor& visit) const {
  Mapping mapping;
  MUSTER_RETURN_IF_ERROR(mapping.Map(fd_, path_));
  JournalScan scan;
  MUSTER_RETURN_IF_ERROR(ParseHead(path_, mapping.bytes(), &scan).status());
  return ParseRecords(path_, mapping.bytes().substr(0, scan_.good_bytes), visit, &scan);
}

std::uint64_t Journal::Add(TimePoint time, std::string_view payload) {
  MUSTER_CHECK(payload.size() <= kRecordBytesMax, "a record is no larger than a message allows");
  const std::int64_t nanoseconds = time.time_since_epoch().count();
  batch_ += kMarker;
  Append(&batch_, static_cast<std::uint32_t>(payload.size()));
  Append(&batch_, next_index_);
  Append(&batch_, nanoseconds);
  Append(&batch_, Checksum(next_index_, nanoseconds, payload));
  batch_ += payload;
  return next_index_++;
}

Status Journal::Commit() {
  const std::string batch = std::exchange(batch_, {});
  if (failed_ || batch.empty()) return OkStatus();
  const Status written = WriteAll(fd_, batch);
  if (written.ok()) return OkStatus();
  failed_ = true;
  // In place: needs no room on a full disk. O_APPEND would send pwrite to the end.
  const int fd = open(path_.c_str(), O_WRONLY | O_CLOEXEC);
  const bool marked =
      fd >= 0 && pwrite(fd, &kIncomplete, sizeof(kIncomplete), kFlagsOffset) == sizeof(kIncomplete);
  if (fd >= 0) close(fd);
  return written.With(
      Concat("cannot write the journal ", path_, marked ? "" : " (nor mark it as incomplete)"));
}

}  // namespace muster::server
