#include "rendezvousd/core/naming.h"

#include <algorithm>
#include <array>
#include <utility>

#include "common/text.h"
#include "rendezvousd/core/limits.h"

namespace muster::core {

std::string ListNames(const std::vector<std::string>& names, std::size_t total) {
  const std::size_t shown = std::min(names.size(), kNamesShown);
  std::string out;
  for (std::size_t i = 0; i < shown; ++i) out += Concat(i == 0 ? "" : ", ", names[i]);
  if (total > shown) out += Concat(shown == 0 ? "" : " and ", total - shown, " more");
  return out;
}

std::string Count(std::uint64_t number, std::string_view noun) {
  return Concat(number, " ", noun, number == 1 ? "" : "s");
}

std::string Lasting(Duration duration) {
  std::string text = DescribeDuration(std::max(duration, Duration::zero()));
  const auto cut = [&text](std::string_view end, std::string_view instead) {
    if (!text.ends_with(end)) return;
    text.resize(text.size() - end.size());
    text += instead;
  };
  cut(".0 s", " s");
  cut("min 0 s", "min");
  return text;
}

std::string SignalName(std::int32_t number) {
  // Linux's numbers on x86-64 and arm64: those that end training programs.
  constexpr std::array<std::pair<std::int32_t, const char*>, 15> kNames = {{{1, "SIGHUP"},
                                                                            {2, "SIGINT"},
                                                                            {3, "SIGQUIT"},
                                                                            {4, "SIGILL"},
                                                                            {5, "SIGTRAP"},
                                                                            {6, "SIGABRT"},
                                                                            {7, "SIGBUS"},
                                                                            {8, "SIGFPE"},
                                                                            {9, "SIGKILL"},
                                                                            {10, "SIGUSR1"},
                                                                            {11, "SIGSEGV"},
                                                                            {12, "SIGUSR2"},
                                                                            {13, "SIGPIPE"},
                                                                            {15, "SIGTERM"},
                                                                            {24, "SIGXCPU"}}};
  for (const auto& [value, name] : kNames) {
    if (value == number) return Concat("signal ", number, " (", name, ")");
  }
  return Concat("signal ", number);
}

std::string DescribeExit(std::int32_t rank, const std::string& node,
                         const protocol::WorkerExited& exit) {
  std::string out = Concat("rank ", rank, " on ", node);
  if (exit.signal != 0) {
    out += Concat(" was killed by ", SignalName(exit.signal));
  } else {
    out += Concat(" exited with code ", exit.exit_code);
  }
  if (exit.cause == protocol::Cause::kMemory) out += " at the memory limit";
  if (!exit.last_line.empty()) out += Concat(": ", Limited(exit.last_line));
  return out;
}

std::string Limited(std::string_view text) {
  if (text.size() <= limits::kTextBytesMax) return std::string(text);
  std::size_t end = limits::kTextBytesMax;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;
  return std::string(text.substr(0, end));
}

}  // namespace muster::core
