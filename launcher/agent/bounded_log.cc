#include "launcher/agent/bounded_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "common/text.h"

namespace muster::agent {

BoundedLog::BoundedLog(std::string path, LogLimits limits)
    : path_(std::move(path)), limits_(limits) {}

std::string BoundedLog::PartPath(std::uint64_t part) const {
  if (part == 0) return path_;
  std::string number = std::to_string(part);
  if (number.size() < 5) number.insert(0, 5 - number.size(), '0');
  return Concat(path_, ".part-", number);
}

Status BoundedLog::OpenNext() {
  const std::string path = PartPath(part_);
  file_ = Descriptor(open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  if (!file_.valid()) return FromErrno(errno, Concat("cannot open the log ", path));
  if (part_ > limits_.parts) unlink(PartPath(part_ - limits_.parts).c_str());
  return OkStatus();
}

Status BoundedLog::Append(std::string_view bytes) {
  const std::uint64_t limit = part_ == 0 ? limits_.head_bytes : limits_.part_bytes;
  if (written_ > 0 && written_ + bytes.size() > limit) {
    if (part_ == 0 && file_.valid()) {
      const Status note = WriteAll(
          file_.get(), Concat("muster: goes on in ", PartPath(1), " and following; the newest ",
                              limits_.parts, " parts are kept\n"));
      MUSTER_RETURN_IF_ERROR(note.With(path_));
    }
    file_.Close();
    ++part_;
    written_ = 0;
  }
  if (!file_.valid()) MUSTER_RETURN_IF_ERROR(OpenNext());
  const Status status = WriteAll(file_.get(), bytes);
  if (status.ok()) written_ += bytes.size();
  return status.With(PartPath(part_));
}

}  // namespace muster::agent
