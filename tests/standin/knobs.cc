#include "tests/standin/knobs.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <mutex>
#include <string_view>

namespace muster::standin {
namespace {

int NumberFrom(const char* name, int fallback) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::atoi(text) : fallback;
}

// "RANK:OPERATION"
Place PlaceFrom(const char* name) {
  Place place;
  const char* text = std::getenv(name);
  long long operation = 0;
  if (text != nullptr && std::sscanf(text, "%d:%lld", &place.rank, &operation) == 2) {
    place.operation = operation;
    return place;
  }
  return {};
}

struct LastError {
  std::mutex mutex;
  std::string text;
};
LastError& TheLastError() {
  static auto* const last = new LastError;
  return *last;
}

}  // namespace

Knobs KnobsFromEnvironment() {
  Knobs knobs;
  knobs.delay_ms = NumberFrom("MUSTER_STANDIN_DELAY_MS", 0);
  knobs.hang = PlaceFrom("MUSTER_STANDIN_HANG");
  knobs.remote_error = PlaceFrom("MUSTER_STANDIN_REMOTE_ERROR");
  knobs.init_hang_rank = NumberFrom("MUSTER_STANDIN_INIT_HANG", -1);
  knobs.revoke_fails = NumberFrom("MUSTER_STANDIN_REVOKE_FAILS", 0) != 0;
  knobs.abort_hangs = NumberFrom("MUSTER_STANDIN_ABORT_HANGS", 0) != 0;
  return knobs;
}

void Warn(const std::string& text) {
  {
    LastError& last = TheLastError();
    const std::lock_guard lock(last.mutex);
    last.text = text;
  }
  const char* level = std::getenv("NCCL_DEBUG");
  if (level == nullptr || std::string_view(level) == "VERSION") return;
  char host[64] = "host", stamp[32] = "";
  gethostname(host, sizeof(host) - 1);
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  std::strftime(stamp, sizeof(stamp), "%F %T", localtime_r(&now, &parts));
  std::printf("\n[%s] %s:%d:%ld [0] standin.cc:1 NCCL WARN %s\n", stamp, host, getpid(),
              syscall(SYS_gettid), text.c_str());
  std::fflush(stdout);
}

const char* LastWarning() {
  static thread_local std::string copy;
  LastError& last = TheLastError();
  const std::lock_guard lock(last.mutex);
  copy = last.text;
  return copy.c_str();
}

}  // namespace muster::standin
