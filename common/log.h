#pragma once

// The program's own lines on stderr: "muster: text", "muster: warning: text".
//
// One write(2) a line and nothing kept in memory: the host, its daemon and several agents share one
// stderr, lines up to PIPE_BUF come out whole, and the last line before a crash is out. That is why
// it is not spdlog (buffers, locks, threads, a heavy header); log files of workers are another
// thing. Thread-safe. A pipe that nobody reads delays the caller by a second once; that line and
// those after it are lost until somebody reads again.
//
// MUSTER_LOG=error|warning|info|debug chooses what is shown (info if unset). Never pass a secret.

#include <string>
#include <string_view>

#include "common/status.h"

namespace muster {

enum class LogLevel { kError, kWarning, kInfo, kDebug };

// A line feed begins another line with the same prefix; other control bytes appear as \xNN.
void Log(LogLevel level, std::string_view text);
inline void LogError(std::string_view text) { Log(LogLevel::kError, text); }
inline void LogWarning(std::string_view text) { Log(LogLevel::kWarning, text); }
inline void LogInfo(std::string_view text) { Log(LogLevel::kInfo, text); }
inline void LogDebug(std::string_view text) { Log(LogLevel::kDebug, text); }

// True if lines of this level are shown: ask before building an expensive text.
bool LogShown(LogLevel level);
Result<LogLevel> ParseLogLevel(std::string_view name);
// Instead of what MUSTER_LOG says.
void SetLogLevel(LogLevel level);
// Where lines go (2 at first). The caller keeps the descriptor open.
void SetLogDescriptor(int descriptor);

// The bytes that Log writes for a text, without writing them.
std::string FormatLogLines(LogLevel level, std::string_view text);

// Says a reason when it differs from the last one said: a retry loop that fails a thousand times
// for one reason writes one line. Thread-compatible.
class LogChanged {
 public:
  // True if the line was written (or would have been, at this level).
  bool Say(LogLevel level, std::string_view reason);
  // The trouble is over: the same reason will be said again.
  void Clear() { last_.clear(); }

 private:
  std::string last_;
};

}  // namespace muster
