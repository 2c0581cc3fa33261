#include "launcher/cli/log_files.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>
#include <tuple>

#include "common/text.h"
#include "launcher/agent/files.h"
#include "launcher/cli/history.h"
#include "launcher/cli/json_fields.h"

namespace muster::cli {
namespace {

namespace fs = std::filesystem;

// Enough for a screen of long lines.
constexpr std::uint64_t kTailBytes = 64U << 10U;
constexpr std::size_t kShownLineBytes = 500;
// Environment names may be many.
constexpr std::size_t kSpecBytesMax = std::size_t{4} << 20U;
constexpr std::string_view kLog = ".log";
constexpr std::string_view kPart = ".log.part-";

// Cuts the number behind the last `mark` off the text.
std::optional<std::uint32_t> NumberBehind(std::string_view mark, std::string_view* text) {
  const std::size_t at = text->rfind(mark);
  if (at == std::string_view::npos) return std::nullopt;
  const auto number = ParseInteger<std::uint32_t>("number", text->substr(at + mark.size()));
  if (!number.ok()) return std::nullopt;
  *text = text->substr(0, at);
  return *number;
}

// "rank-3.round-2.log", "n3.round-2.log.part-00001".
std::optional<LogFile> FromName(std::string_view name, std::uint32_t attempt) {
  LogFile log;
  log.attempt = attempt;
  if (name.ends_with(kLog)) {
    name.remove_suffix(kLog.size());
  } else if (!NumberBehind(kPart, &name)) {
    return std::nullopt;
  }
  const auto round = NumberBehind(".round-", &name);
  if (!round || name.empty()) return std::nullopt;
  log.round = *round;
  std::string_view who = name;
  const auto rank = who.starts_with("rank-") ? NumberBehind("rank-", &who) : std::nullopt;
  if (rank && who.empty()) {
    log.rank = static_cast<int>(*rank);
  } else {
    log.agent = name;
  }
  return log;
}

std::string Prefix(int rank) { return Concat("[rank ", rank, "] "); }

bool HasRank(const LogFile& log, int rank) {
  bool found = false;
  Offsets offsets;
  ReadLog(log, rank, true, &offsets,
          [&](std::string_view text) { found = found || !text.empty(); });
  return found;
}

// The newest bytes of all its parts together.
std::string Tail(const LogFile& log) {
  std::string text;
  for (auto part = log.parts.rbegin(); part != log.parts.rend() && text.size() < kTailBytes;
       ++part) {
    std::ifstream file(*part, std::ios::binary | std::ios::ate);
    if (!file) continue;
    const auto size = static_cast<std::uint64_t>(std::max<std::streamoff>(file.tellg(), 0));
    const std::uint64_t wanted = std::min(size, kTailBytes - text.size());
    std::string piece(wanted, '\0');
    file.seekg(static_cast<std::streamoff>(size - wanted));
    file.read(piece.data(), static_cast<std::streamsize>(wanted));
    piece.resize(static_cast<std::size_t>(std::max<std::streamsize>(file.gcount(), 0)));
    text.insert(0, piece);
  }
  return text;
}

}  // namespace

std::string LogFolder(const std::string& run_folder) {
  std::error_code ignored;
  if (const auto text = agent::ReadSmallFile(run_folder + "/spec.json", kSpecBytesMax); text.ok()) {
    const std::string told = Text(Json::parse(*text, nullptr, false), "log_dir");
    if (!told.empty() && fs::is_directory(told, ignored)) return told;
  }
  return run_folder + "/logs";
}

std::vector<LogFile> ListLogs(const std::string& log_folder) {
  using Key = std::tuple<std::uint32_t, std::uint32_t, int, std::string>;
  std::map<Key, LogFile> logs;
  std::error_code error;
  for (const auto& folder : fs::directory_iterator(log_folder, error)) {
    std::string_view rest;
    const std::string name = folder.path().filename().string();
    rest = name;
    const auto attempt = NumberBehind("attempt-", &rest);
    if (!attempt || !rest.empty()) continue;
    std::error_code unreadable;
    for (const auto& entry : fs::directory_iterator(folder, unreadable)) {
      auto found = FromName(entry.path().filename().string(), *attempt);
      if (!found) continue;
      LogFile& log = logs[{found->attempt, found->round, found->rank, found->agent}];
      std::vector<std::string> parts = std::move(log.parts);
      const std::uint64_t bytes = log.bytes;
      log = std::move(*found);
      log.parts = std::move(parts);
      log.parts.push_back(entry.path().string());
      std::error_code gone;
      const std::uint64_t size = entry.file_size(gone);
      log.bytes = bytes + (gone ? 0 : size);
    }
  }
  std::vector<LogFile> sorted;
  for (auto& [key, log] : logs) {
    std::ranges::sort(log.parts);  // PATH is before PATH.part-00001
    log.path = log.parts.front();
    if (const std::size_t at = log.path.rfind(kPart); at != std::string::npos) {
      log.path.resize(at + kLog.size());
    }
    sorted.push_back(std::move(log));
  }
  return sorted;
}

std::vector<LogFile> LogsOfRank(const std::vector<LogFile>& logs, int rank) {
  std::vector<LogFile> chosen;
  for (const LogFile& log : logs) {
    if (log.rank == rank || (log.rank < 0 && HasRank(log, rank))) chosen.push_back(log);
  }
  return chosen;
}

void ReadLog(const LogFile& log, int rank, bool to_the_end, Offsets* offsets,
             const std::function<void(std::string_view)>& sink) {
  const bool filter = log.rank < 0 && rank >= 0;
  const std::string prefix = Prefix(rank);
  for (const std::string& part : log.parts) {
    std::uint64_t& offset = (*offsets)[part];
    std::ifstream file(part, std::ios::binary);
    if (!file.seekg(static_cast<std::streamoff>(offset))) continue;
    for (std::string line; std::getline(file, line);) {
      if (file.eof() && !to_the_end) break;
      if (!file.eof()) line += '\n';
      offset += line.size();
      if (!filter) {
        sink(line);
      } else if (line.starts_with(prefix)) {
        sink(std::string_view(line).substr(prefix.size()));
      }
    }
  }
}

std::vector<std::string> LastLines(const LogFile& log, std::size_t count, int rank) {
  const bool filter = log.rank < 0 && rank >= 0;
  const std::string prefix = Prefix(rank);
  const std::string text = Tail(log);
  std::vector<std::string> lines;
  for (std::string_view line : Split(text, '\n')) {
    if (filter && !line.starts_with(prefix)) continue;
    if (filter) line.remove_prefix(prefix.size());
    // Of a progress bar the newest state.
    while (line.ends_with('\r')) line.remove_suffix(1);
    line = line.substr(line.rfind('\r') + 1);
    if (!Trim(line).empty()) lines.push_back(Printable(line, kShownLineBytes));
  }
  if (lines.size() > count) {
    lines.erase(lines.begin(), lines.end() - static_cast<std::ptrdiff_t>(count));
  }
  return lines;
}

std::string Size(std::uint64_t bytes) {
  if (bytes < 1024) return Concat(bytes, " B");
  const bool mega = bytes >= 1U << 20U;
  const std::uint64_t tenths = mega ? bytes * 10 >> 20U : bytes * 10 >> 10U;
  return Concat(tenths / 10, ".", tenths % 10, mega ? " MiB" : " KiB");
}

}  // namespace muster::cli
