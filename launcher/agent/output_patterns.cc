#include "launcher/agent/output_patterns.h"

#include <array>
#include <nlohmann/json.hpp>

namespace muster::agent {
namespace {

using protocol::Cause;

struct Pattern {
  std::string_view text;
  Cause cause;
};

// Texts of PyTorch, NCCL and Gloo as they are printed. All are about others, or about time.
constexpr std::array kPatterns = {
    Pattern{"Watchdog caught collective operation timeout", Cause::kHang},
    Pattern{"Some NCCL operations have failed or timed out", Cause::kHang},
    Pattern{"Heartbeat monitor timed out", Cause::kHang},
    Pattern{"monitoredBarrier", Cause::kHang},
    Pattern{"ncclRemoteError", Cause::kNetwork},
    Pattern{"ncclSystemError", Cause::kNetwork},
    Pattern{"remote process exited or there was a network error", Cause::kNetwork},
    Pattern{"NET/IB : Got completion from peer", Cause::kNetwork},
    Pattern{"Call to connect returned Connection refused", Cause::kNetwork},
    Pattern{"Connection closed by peer", Cause::kNetwork},
    Pattern{"Connection reset by peer", Cause::kNetwork},
    Pattern{"DistNetworkError", Cause::kNetwork},
    Pattern{"DistStoreError", Cause::kNetwork},
    Pattern{"Broken pipe", Cause::kNetwork},
    Pattern{"No route to host", Cause::kNetwork},
};

const Pattern* Known(std::string_view line) {
  for (const Pattern& pattern : kPatterns) {
    if (line.find(pattern.text) != std::string_view::npos) return &pattern;
  }
  return nullptr;
}

// "ValueError: x", "torch.cuda.OutOfMemoryError: x", "terminate called", "error: x".
bool LooksLikeError(std::string_view line) {
  if (line.empty() || line.front() == ' ' || line.front() == '\t') return false;
  const std::size_t colon = line.find(':');
  const std::string_view head = line.substr(0, colon);
  if (colon != std::string_view::npos && head.find(' ') == std::string_view::npos &&
      (head.ends_with("Error") || head.ends_with("Exception"))) {
    return true;
  }
  return line.starts_with("error:") || line.starts_with("terminate called") ||
         line.starts_with("muster:") || line.find("Segmentation fault") != std::string_view::npos;
}

// "Run with --help for more information." stands below what is wrong.
bool IsHint(std::string_view line) { return line.find("--help") != std::string_view::npos; }

}  // namespace

Cause CauseOfLines(const std::vector<std::string>& lines) {
  for (auto line = lines.rbegin(); line != lines.rend(); ++line) {
    if (const Pattern* const pattern = Known(*line)) return pattern->cause;
  }
  return Cause::kNone;
}

std::string ExplainingLine(const std::vector<std::string>& lines) {
  for (auto line = lines.rbegin(); line != lines.rend(); ++line) {
    if (Known(*line) != nullptr) return *line;
  }
  for (auto line = lines.rbegin(); line != lines.rend(); ++line) {
    if (LooksLikeError(*line)) return *line;
  }
  for (auto line = lines.rbegin(); line != lines.rend(); ++line) {
    if (!line->empty() && !IsHint(*line)) return *line;
  }
  return lines.empty() ? std::string() : lines.back();
}

std::string MessageOfErrorFile(std::string_view json) {
  using Json = nlohmann::json;
  const Json file = Json::parse(json, nullptr, /*allow_exceptions=*/false);
  if (!file.is_object() || !file.contains("message")) return "";
  const Json& message = file["message"];
  if (message.is_string()) return message.get<std::string>();
  if (message.is_object() && message.contains("message") && message["message"].is_string()) {
    return message["message"].get<std::string>();
  }
  return "";
}

}  // namespace muster::agent
