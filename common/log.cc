#include "common/log.h"

#include <limits.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>

#include "common/text.h"

namespace muster {
namespace {

// A reader that is alive empties a pipe within this; a dead one must not stop a recovery.
constexpr int kMaxBlockedMilliseconds = 1000;

std::atomic<int> log_descriptor{STDERR_FILENO};
std::atomic<bool> given_up{false};  // the last line found no room
std::atomic<int> level_set{-1};     // -1: MUSTER_LOG has not been read

std::string_view Prefix(LogLevel level) {
  switch (level) {
    case LogLevel::kError:
      return "muster: error: ";
    case LogLevel::kWarning:
      return "muster: warning: ";
    case LogLevel::kInfo:
      return "muster: ";
    case LogLevel::kDebug:
      return "muster: debug: ";
  }
  return "muster: ";
}

// True if a write of up to PIPE_BUF bytes will not block, now or within kMaxBlockedMilliseconds. A
// pipe that was given up once is not waited for again until somebody reads it.
bool HasRoom(int descriptor) {
  pollfd wait{.fd = descriptor, .events = POLLOUT, .revents = 0};
  const int patience = given_up.load(std::memory_order_relaxed) ? 0 : kMaxBlockedMilliseconds;
  int ready = 0;
  do {
    ready = poll(&wait, 1, patience);
  } while (ready < 0 && errno == EINTR);
  given_up.store(ready == 0, std::memory_order_relaxed);
  return ready > 0;
}

// Asks before each piece, since the descriptor is shared and most often blocks. Whatever goes wrong
// here has no better place to be reported.
void WriteAll(std::string_view bytes) {
  const int descriptor = log_descriptor.load(std::memory_order_relaxed);
  if (descriptor < 0) return;
  while (!bytes.empty()) {
    if (!HasRoom(descriptor)) return;
    const ssize_t count =
        write(descriptor, bytes.data(), std::min<std::size_t>(bytes.size(), PIPE_BUF));
    if (count > 0) {
      bytes.remove_prefix(static_cast<std::size_t>(count));
    } else if (count == 0 || (errno != EINTR && errno != EAGAIN)) {
      return;
    }
  }
}

LogLevel LevelFromEnvironment() {
  const char* name = std::getenv("MUSTER_LOG");
  if (name == nullptr || *name == '\0') return LogLevel::kInfo;
  const Result<LogLevel> level = ParseLogLevel(name);
  if (level.ok()) return level.value();
  WriteAll(FormatLogLines(LogLevel::kWarning,
                          Concat("MUSTER_LOG: ", level.status().message(), "; info is used")));
  return LogLevel::kInfo;
}

LogLevel CurrentLevel() {
  const int set = level_set.load(std::memory_order_relaxed);
  if (set >= 0) return static_cast<LogLevel>(set);
  static const LogLevel from_environment = LevelFromEnvironment();
  return from_environment;
}

}  // namespace

bool LogShown(LogLevel level) { return level <= CurrentLevel(); }

Result<LogLevel> ParseLogLevel(std::string_view name) {
  if (name == "error") return LogLevel::kError;
  if (name == "warning") return LogLevel::kWarning;
  if (name == "info") return LogLevel::kInfo;
  if (name == "debug") return LogLevel::kDebug;
  return InvalidArgument(
      Concat("level ", Quote(name), " is not one of error, warning, info, debug"));
}

void SetLogLevel(LogLevel level) { level_set.store(static_cast<int>(level)); }

void SetLogDescriptor(int descriptor) { log_descriptor.store(descriptor); }

std::string FormatLogLines(LogLevel level, std::string_view text) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  while (!text.empty() && text.back() == '\n') text.remove_suffix(1);
  std::string out(Prefix(level));
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\n') {
      out += '\n';
      out += Prefix(level);
    } else if ((byte < 0x20 && c != '\t') || byte == 0x7f) {
      out += "\\x";
      out += kDigits[byte >> 4U];
      out += kDigits[byte & 15U];
    } else {
      out += c;
    }
  }
  out += '\n';
  return out;
}

void Log(LogLevel level, std::string_view text) {
  if (!LogShown(level)) return;
  const int saved = errno;
  const std::string lines = FormatLogLines(level, text);
  std::string_view rest = lines;
  // Line by line: only a short write is certain to come out whole.
  while (!rest.empty()) {
    const std::size_t length = rest.find('\n') + 1;
    WriteAll(rest.substr(0, length));
    rest.remove_prefix(length);
  }
  errno = saved;
}

bool LogChanged::Say(LogLevel level, std::string_view reason) {
  if (reason == last_) return false;
  last_ = reason;
  Log(level, reason);
  return true;
}

}  // namespace muster
