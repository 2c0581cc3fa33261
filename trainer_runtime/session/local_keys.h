#pragma once

// LocalKeys: the keys of a world of one, in memory, with the daemon's rules: set once per value,
// get, wait, add. Thread-safe.

#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>

#include "common/status.h"
#include "common/time.h"

namespace muster::session {

class LocalKeys {
 public:
  // AlreadyExists if it holds another value; the same value again is OK.
  Status Set(const std::string& key, const std::string& value);
  // NotFound names the key.
  Result<std::string> Get(const std::string& key) const;
  Result<std::string> Wait(const std::string& key, Duration timeout) const;
  // A key not there counts as 0. InvalidArgument if it holds something else than a number.
  Result<std::int64_t> Add(const std::string& key, std::int64_t delta);

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::map<std::string, std::string> values_;
};

}  // namespace muster::session
