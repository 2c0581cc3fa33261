#include "trainer_runtime/session/local_keys.h"

#include "common/text.h"

namespace muster::session {

Status LocalKeys::Set(const std::string& key, const std::string& value) {
  const std::lock_guard lock(mutex_);
  const auto [place, inserted] = values_.emplace(key, value);
  if (!inserted && place->second != value) {
    return AlreadyExists(Concat("key ", Quote(key), " is set to another value already"));
  }
  changed_.notify_all();
  return OkStatus();
}

Result<std::string> LocalKeys::Get(const std::string& key) const {
  const std::lock_guard lock(mutex_);
  const auto place = values_.find(key);
  if (place == values_.end()) return NotFound(Concat("key ", Quote(key), " is not set"));
  return place->second;
}

Result<std::string> LocalKeys::Wait(const std::string& key, Duration timeout) const {
  std::unique_lock lock(mutex_);
  if (!changed_.wait_until(lock, SteadyNow() + timeout, [&] { return values_.contains(key); })) {
    return DeadlineExceeded(
        Concat("key ", Quote(key), " was not set within ", FormatDuration(timeout)));
  }
  return values_.at(key);
}

Result<std::int64_t> LocalKeys::Add(const std::string& key, std::int64_t delta) {
  const std::lock_guard lock(mutex_);
  std::int64_t sum = 0;
  if (const auto place = values_.find(key); place != values_.end()) {
    MUSTER_ASSIGN_OR_RETURN(sum,
                            ParseInteger<std::int64_t>(Concat("key ", Quote(key)), place->second));
  }
  if (__builtin_add_overflow(sum, delta, &sum)) {
    return InvalidArgument(Concat("key ", Quote(key), " would pass the range of 64 bits"));
  }
  values_[key] = std::to_string(sum);
  changed_.notify_all();
  return sum;
}

}  // namespace muster::session
