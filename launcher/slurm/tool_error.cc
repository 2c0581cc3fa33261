#include "launcher/slurm/tool_error.h"

#include <array>
#include <string>

#include "common/text.h"

namespace muster::slurm {
namespace {

struct ErrorText {
  std::string_view text;
  StatusCode code;
};
// Slurm's sentences (slurm_errno.c), or parts that all versions share. The first match wins.
constexpr std::array<ErrorText, 30> kErrorTexts = {{
    {"try again in a bit", StatusCode::kUnavailable},  // "the DB index is being set"
    {"Unable to contact slurm controller", StatusCode::kUnavailable},
    {"Socket timed out", StatusCode::kDeadlineExceeded},
    {"Connection refused", StatusCode::kUnavailable},
    {"Zero Bytes were transmitted", StatusCode::kUnavailable},
    {"Transport endpoint", StatusCode::kUnavailable},
    {"Communication connection failure", StatusCode::kUnavailable},
    {"Resource temporarily unavailable", StatusCode::kUnavailable},
    {"Slurm backup controller in standby", StatusCode::kUnavailable},
    {"Protocol authentication error", StatusCode::kUnavailable},
    {"Slurm temporarily unable to accept job", StatusCode::kUnavailable},
    {"Invalid job id", StatusCode::kNotFound},
    {"Invalid Job Id", StatusCode::kNotFound},
    {"not found", StatusCode::kNotFound},
    {"Requested operation is presently disabled", StatusCode::kFailedPrecondition},
    {"Job is no longer pending execution", StatusCode::kFailedPrecondition},
    {"Job/step already completing or completed", StatusCode::kFailedPrecondition},
    {"already completing", StatusCode::kFailedPrecondition},
    {"Job is pending execution", StatusCode::kFailedPrecondition},
    {"Only batch jobs", StatusCode::kFailedPrecondition},
    {"Job resizing not supported", StatusCode::kFailedPrecondition},
    {"ermission denied", StatusCode::kPermissionDenied},
    {"Unauthorized", StatusCode::kPermissionDenied},
    {"MaxSubmit", StatusCode::kResourceExhausted},
    {"policy", StatusCode::kResourceExhausted},
    {"limit", StatusCode::kResourceExhausted},
    {"Invalid node name", StatusCode::kInvalidArgument},
    {"Invalid", StatusCode::kInvalidArgument},
    {"unrecognized option", StatusCode::kInvalidArgument},
    {"Requested node configuration is not available", StatusCode::kInvalidArgument},
}};

}  // namespace

Status StatusFromTool(std::string_view tool, int exit_code, std::string_view error_output) {
  // Several lines are one sentence here.
  std::string text;
  for (const std::string_view line : Split(Trim(error_output), '\n')) {
    const std::string_view part = Trim(line);
    if (!part.empty()) text += Concat(text.empty() ? "" : "; ", part);
  }
  StatusCode code = StatusCode::kUnknown;
  for (const ErrorText& entry : kErrorTexts) {
    if (text.find(entry.text) != std::string::npos) {
      code = entry.code;
      break;
    }
  }
  return Status(code, Concat(tool, " ended with ", exit_code, ": ",
                             text.empty() ? std::string("it printed no reason") : Quote(text)));
}

}  // namespace muster::slurm
