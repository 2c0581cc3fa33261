#pragma once

// Status and Result<T>: how every expected failure travels in muster.
//
// The code is chosen by what the caller should do; the text names the thing, the value, the reason
// and what to do next. Codes have gRPC's numbers, so the conversion at the edge is a cast. The
// library's own Status is not absl's: Debian's abseil has a string_view of its own, and the SPANK
// plugin and libmuster must not link it.
//
// Thread-compatible. Anybody may use it; it includes only the standard library.

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "common/check.h"

namespace muster {

enum class StatusCode {
  kOk = 0,
  kCancelled = 1,           // the caller, or the end of the run, gave up: do not retry
  kUnknown = 2,             // a foreign failure without a better code
  kInvalidArgument = 3,     // the request is wrong and will stay wrong: correct it
  kDeadlineExceeded = 4,    // not done in time: may be retried
  kNotFound = 5,            // the named thing is not there
  kAlreadyExists = 6,       // set once, and set before to something else
  kPermissionDenied = 7,    // the caller may not do this
  kResourceExhausted = 8,   // a limit of muster, the system or the site is reached
  kFailedPrecondition = 9,  // not in this state or round: look at the state, then decide anew
  kAborted = 10,            // superseded by a newer round or incarnation: join again
  kOutOfRange = 11,         // past an end
  kUnimplemented = 12,      // not part of this version
  kInternal = 13,           // a broken promise of ours or of a library: report it
  kUnavailable = 14,        // not reachable now: retry with back-off
  kDataLoss = 15,           // stored data is damaged: use another copy
  kUnauthenticated = 16,    // no secret, or a wrong one
};

// "InvalidArgument" and so on, for logs.
std::string_view StatusCodeName(StatusCode code);

class [[nodiscard]] Status {
 public:
  Status() = default;  // OK
  Status(StatusCode code, std::string message) : code_(code), message_(std::move(message)) {}

  bool ok() const { return code_ == StatusCode::kOk; }
  StatusCode code() const { return code_; }
  const std::string& message() const { return message_; }
  // "OK", or "NotFound: run run1 of job 12 has no state folder".
  std::string ToString() const;

  // The same code with "context: " before the text; OK stays OK.
  Status With(std::string_view context) const;

  friend bool operator==(const Status&, const Status&) = default;

 private:
  StatusCode code_ = StatusCode::kOk;
  std::string message_;
};

inline Status OkStatus() { return {}; }
Status InvalidArgument(std::string message);
Status DeadlineExceeded(std::string message);
Status NotFound(std::string message);
Status AlreadyExists(std::string message);
Status PermissionDenied(std::string message);
Status ResourceExhausted(std::string message);
Status FailedPrecondition(std::string message);
Status Aborted(std::string message);
Status Cancelled(std::string message);
Status Internal(std::string message);
Status Unavailable(std::string message);
Status DataLoss(std::string message);
Status Unauthenticated(std::string message);
// Text of errno behind the message; the code follows the number (ENOENT: NotFound, EACCES:
// PermissionDenied, ENOSPC and EMFILE: ResourceExhausted, else Unavailable).
Status FromErrno(int error_number, std::string message);

// A value or the Status that explains its absence. value() REQUIRES ok().
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}         // NOLINT: implicit by design
  Result(Status status) : status_(std::move(status)) {  // NOLINT: implicit by design
    MUSTER_CHECK(!status_.ok(), "a Result without a value needs an error");
  }

  bool ok() const { return value_.has_value(); }
  const Status& status() const { return status_; }
  T& value() & {
    MUSTER_CHECK(ok(), status_.message());
    return *value_;
  }
  const T& value() const& {
    MUSTER_CHECK(ok(), status_.message());
    return *value_;
  }
  T&& value() && {
    MUSTER_CHECK(ok(), status_.message());
    return std::move(*value_);
  }
  T value_or(T other) const { return ok() ? *value_ : std::move(other); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }

 private:
  std::optional<T> value_;
  Status status_;
};

}  // namespace muster

// Returns the Status of an expression to the caller if it is not OK.
#define MUSTER_RETURN_IF_ERROR(expression)                                                        \
  do {                                                                                            \
    if (::muster::Status muster_status = (expression); !muster_status.ok()) return muster_status; \
  } while (false)

#define MUSTER_CONCAT_INNER(a, b) a##b
#define MUSTER_CONCAT(a, b) MUSTER_CONCAT_INNER(a, b)
// MUSTER_ASSIGN_OR_RETURN(auto hosts, ExpandHostList(text));
#define MUSTER_ASSIGN_OR_RETURN(left, expression)              \
  auto MUSTER_CONCAT(muster_result_, __LINE__) = (expression); \
  if (!MUSTER_CONCAT(muster_result_, __LINE__).ok())           \
    return MUSTER_CONCAT(muster_result_, __LINE__).status();   \
  left = std::move(MUSTER_CONCAT(muster_result_, __LINE__)).value()
