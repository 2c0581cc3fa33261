#include "common/entropy.h"

#include <sys/random.h>

#include <cerrno>
#include <cstring>

namespace muster {

Status FillRandom(std::span<std::uint8_t> out) {
  while (!out.empty()) {
    const ssize_t count = getrandom(out.data(), out.size(), 0);
    if (count < 0) {
      if (errno == EINTR) continue;
      return FromErrno(errno, "the system gives no random bytes (getrandom)");
    }
    out = out.subspan(static_cast<std::size_t>(count));
  }
  return OkStatus();
}

Result<std::string> RandomBytes(std::size_t count) {
  std::string out(count, '\0');
  MUSTER_RETURN_IF_ERROR(FillRandom({reinterpret_cast<std::uint8_t*>(out.data()), out.size()}));
  return out;
}

Result<std::uint64_t> RandomSeed() {
  std::uint8_t bytes[sizeof(std::uint64_t)];
  MUSTER_RETURN_IF_ERROR(FillRandom(bytes));
  std::uint64_t seed = 0;
  std::memcpy(&seed, bytes, sizeof(seed));
  return seed;
}

}  // namespace muster
