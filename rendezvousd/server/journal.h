#pragma once

// The journal: what makes the run's state outlive the daemon. One file on the batch host's local
// disk, appended by one write(2) for each batch of events *before* the machine acts on them.
//
// There is no fsync: the journal serves a daemon that is started again on the same machine, and
// what write() has taken is in the page cache, which a crash of the process does not touch. When
// the machine itself dies, the job's state goes on from the handover in the state folder.
//
// Layout, little-endian: the head {magic, format version, flags, length and checksum of a JSON
// text with run, attempt, boot and configuration, the text}, then records {marker, payload length,
// index, time, checksum, payload}. A bad record with nothing good behind it is a torn tail and cut;
// a bad record before a good one is damage: refused with its offset.
//
// One process at a time (flock). Thread-compatible.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"
#include "common/time.h"
#include "rendezvousd/protocol/config.h"

namespace muster::server {

// A daemon reads its own format and older ones, and refuses newer ones.
inline constexpr std::uint32_t kJournalFormat = 1;
// A wire message and the event around it.
inline constexpr std::uint32_t kRecordBytesMax = 4u << 20;

struct JournalHead {
  protocol::Config config;
  std::string boot_id;  // of the kernel whose monotonic clock the times are of
};

struct JournalRecord {
  std::uint64_t index = 0;   // from 0, without a gap
  std::uint64_t offset = 0;  // in the file, for messages
  TimePoint time;            // machine time
  std::string_view payload;  // valid within the callback
};

struct JournalScan {
  JournalHead head;
  std::uint64_t records = 0;
  std::uint64_t good_bytes = 0;  // up to the end of the last good record
  std::uint64_t torn_bytes = 0;  // behind it
};
using RecordVisitor = std::function<Status(const JournalRecord&)>;

// Reads without changing anything; also what `rendezvousd --replay` uses.
Result<JournalScan> ReadJournal(const std::string& path, const RecordVisitor& visit);

class Journal {
 public:
  // Opens or creates. FailedPrecondition: another run's, another attempt's, a newer format's, or
  // one that could not be written to its end. DataLoss: damaged. Unavailable: another daemon has
  // it.
  static Result<std::unique_ptr<Journal>> Open(const std::string& path, const JournalHead& head);
  ~Journal();
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  // What was there when it was opened; records() == 0 for a new one.
  const JournalScan& scan() const { return scan_; }
  // Visits the records that were there.
  Status Replay(const RecordVisitor& visit) const;

  // Adds to the batch; gives the record's index.
  std::uint64_t Add(TimePoint time, std::string_view payload);
  // Writes the batch. After a failure the file is marked as incomplete, so that no daemon goes on
  // from it with a state that is older than what agents were told; later commits do nothing.
  Status Commit();
  bool failed() const { return failed_; }
  std::uint64_t next_index() const { return next_index_; }

 private:
  Journal(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}
  Status Create(const JournalHead& head);
  Status Adopt(const JournalHead& head);

  const std::string path_;
  const int fd_;
  JournalScan scan_;
  std::uint64_t next_index_ = 0;
  std::string batch_;
  bool failed_ = false;
};

}  // namespace muster::server
