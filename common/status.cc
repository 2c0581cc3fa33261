#include "common/status.h"

#include <cerrno>
#include <cstring>

namespace muster {

std::string_view StatusCodeName(StatusCode code) {
  switch (code) {
    case StatusCode::kOk:
      return "OK";
    case StatusCode::kCancelled:
      return "Cancelled";
    case StatusCode::kUnknown:
      return "Unknown";
    case StatusCode::kInvalidArgument:
      return "InvalidArgument";
    case StatusCode::kDeadlineExceeded:
      return "DeadlineExceeded";
    case StatusCode::kNotFound:
      return "NotFound";
    case StatusCode::kAlreadyExists:
      return "AlreadyExists";
    case StatusCode::kPermissionDenied:
      return "PermissionDenied";
    case StatusCode::kResourceExhausted:
      return "ResourceExhausted";
    case StatusCode::kFailedPrecondition:
      return "FailedPrecondition";
    case StatusCode::kAborted:
      return "Aborted";
    case StatusCode::kOutOfRange:
      return "OutOfRange";
    case StatusCode::kUnimplemented:
      return "Unimplemented";
    case StatusCode::kInternal:
      return "Internal";
    case StatusCode::kUnavailable:
      return "Unavailable";
    case StatusCode::kDataLoss:
      return "DataLoss";
    case StatusCode::kUnauthenticated:
      return "Unauthenticated";
  }
  return "Unknown";
}

std::string Status::ToString() const {
  if (ok()) return "OK";
  return std::string(StatusCodeName(code_)) + ": " + message_;
}

Status Status::With(std::string_view context) const {
  if (ok()) return *this;
  return Status(code_, std::string(context) + ": " + message_);
}

Status InvalidArgument(std::string message) {
  return {StatusCode::kInvalidArgument, std::move(message)};
}
Status DeadlineExceeded(std::string message) {
  return {StatusCode::kDeadlineExceeded, std::move(message)};
}
Status NotFound(std::string message) { return {StatusCode::kNotFound, std::move(message)}; }
Status AlreadyExists(std::string message) {
  return {StatusCode::kAlreadyExists, std::move(message)};
}
Status PermissionDenied(std::string message) {
  return {StatusCode::kPermissionDenied, std::move(message)};
}
Status ResourceExhausted(std::string message) {
  return {StatusCode::kResourceExhausted, std::move(message)};
}
Status FailedPrecondition(std::string message) {
  return {StatusCode::kFailedPrecondition, std::move(message)};
}
Status Aborted(std::string message) { return {StatusCode::kAborted, std::move(message)}; }
Status Cancelled(std::string message) { return {StatusCode::kCancelled, std::move(message)}; }
Status Internal(std::string message) { return {StatusCode::kInternal, std::move(message)}; }
Status Unavailable(std::string message) { return {StatusCode::kUnavailable, std::move(message)}; }
Status DataLoss(std::string message) { return {StatusCode::kDataLoss, std::move(message)}; }
Status Unauthenticated(std::string message) {
  return {StatusCode::kUnauthenticated, std::move(message)};
}

Status FromErrno(int error_number, std::string message) {
  std::string text = std::move(message) + ": " + std::strerror(error_number);
  switch (error_number) {
    case ENOENT:
      return NotFound(std::move(text));
    case EACCES:
    case EPERM:
    case EROFS:
      return PermissionDenied(std::move(text));
    case EEXIST:
      return AlreadyExists(std::move(text));
    case EINVAL:
      return InvalidArgument(std::move(text));
    case ENOSPC:
    case EDQUOT:
    case EMFILE:
    case ENFILE:
    case ENOMEM:
      return ResourceExhausted(std::move(text));
    case ETIMEDOUT:
      return DeadlineExceeded(std::move(text));
    default:
      return Unavailable(std::move(text));
  }
}

}  // namespace muster
