#include "trainer_runtime/muster_train/reporter.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>

#include "common/log.h"
#include "common/text.h"

namespace muster::train_program {
namespace {

// The file's end that is searched for the last step: some hundred events.
constexpr off_t kTailBytes = 64 << 10;

double Milliseconds(Duration duration) {
  return std::chrono::duration<double, std::milli>(duration).count();
}

std::string Number(double value, const char* format) {
  char text[64];
  std::snprintf(text, sizeof(text), format, value);
  return text;
}

std::string JsonNumber(double value) {
  return std::isfinite(value) ? Number(value, "%.9g") : std::string("null");
}

std::int64_t UnixMilliseconds() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

// A text as JSON; a path may hold bytes that are no UTF-8.
std::string JsonText(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// The highest step that the events of a file tell; a line that was cut off is passed over.
std::uint64_t HighestStep(const std::string& tail) {
  std::uint64_t highest = 0;
  for (const std::string_view line : Split(tail, '\n')) {
    const auto event = nlohmann::json::parse(line, nullptr, false);
    if (!event.is_object()) continue;
    if (const auto kind = event.find("event"); kind == event.end() || *kind != "step") continue;
    if (const auto step = event.find("step"); step != event.end() && step->is_number_unsigned()) {
      highest = std::max(highest, step->get<std::uint64_t>());
    }
  }
  return highest;
}

}  // namespace

Reporter::Reporter(const Options& options) : options_(options) {}

Reporter::~Reporter() {
  if (file_ >= 0) close(file_);
}

void Reporter::OpenEvents() {
  if (options_.json_lines.empty() || file_ >= 0 || told_) return;
  file_ = open(options_.json_lines.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  struct stat info {};
  if (file_ < 0 || fstat(file_, &info) != 0) {
    told_ = true;
    LogWarning(
        FromErrno(errno, Concat("no events: cannot open --json-lines ", Quote(options_.json_lines)))
            .message());
    return;
  }
  std::string tail(static_cast<std::size_t>(std::min(info.st_size, kTailBytes)), '\0');
  const ssize_t got =
      pread(file_, tail.data(), tail.size(), info.st_size - static_cast<off_t>(tail.size()));
  tail.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  highest_step_ = std::max(highest_step_, HighestStep(tail));
  // A process that was killed while it wrote left a part of a line.
  if (!tail.empty() && tail.back() != '\n' && write(file_, "\n", 1) != 1) told_ = true;
}

void Reporter::Event(const std::string& name, const std::string& fields) {
  if (file_ < 0) return;
  const std::string line =
      Concat("{\"unix_ms\":", UnixMilliseconds(), ",\"event\":\"", name, "\",", fields,
             ",\"attempt\":", info_.attempt, ",\"round\":", info_.round,
             ",\"world\":", info_.world_size, "}\n");
  if (write(file_, line.data(), line.size()) == static_cast<ssize_t>(line.size()) || told_) return;
  told_ = true;
  LogWarning(FromErrno(errno, Concat("events are lost: cannot write ", Quote(options_.json_lines)))
                 .message());
}

void Reporter::EnterRound(const session::RoundInfo& info, std::uint64_t parameters) {
  const std::lock_guard lock(mutex_);
  info_ = info;
  speaks_ = info.rank == 0;
  time_since_line_ = {};
  steps_since_line_ = 0;
  if (!speaks_) return;
  OpenEvents();
  std::string text = Concat("round ", info.round, " (attempt ", info.attempt, "): rank 0 of ",
                            info.world_size, ", cause ", info.cause, ", model ", options_.model,
                            " with ", parameters, " parameters, ", options_.backend);
  if (info.previous_world_size != 0 && info.previous_world_size != info.world_size) {
    text += Concat("; the world was ", info.previous_world_size, " ranks and is ", info.world_size,
                   " now, the global batch stays ", options_.batch, " sequences");
  }
  std::printf("%s\n", text.c_str());
  Event("round", Concat("\"cause\":", JsonText(info.cause), ",\"nodes\":", info.node_count));
}

void Reporter::Resume(const std::string& from, std::uint64_t step, double last_loss) {
  const std::lock_guard lock(mutex_);
  if (!speaks_) return;
  const std::uint64_t repeated = highest_step_ > step ? highest_step_ - step : 0;
  std::printf("state from %s, at step %" PRIu64 " of %" PRIu64 "; %" PRIu64
              " steps are done again\n",
              from.c_str(), step, options_.steps, repeated);
  Event("resume",
        Concat("\"step\":", step, ",\"from\":", JsonText(from), ",\"repeated\":", repeated));
  // A step that others finished before a failure and that nobody told: its rank 0 died.
  if (step > highest_step_ && step > 0) {
    highest_step_ = step;
    Event("step", Concat("\"step\":", step, ",\"loss\":", JsonNumber(last_loss)));
  }
}

void Reporter::Step(const StepReport& report) {
  const std::lock_guard lock(mutex_);
  if (!speaks_) return;
  highest_step_ = std::max(highest_step_, report.step);
  Event("step", Concat("\"step\":", report.step, ",\"loss\":", JsonNumber(report.loss),
                       ",\"ms\":", JsonNumber(Milliseconds(report.time))));
  time_since_line_ += report.time;
  ++steps_since_line_;
  if (report.step % options_.log_every != 0 && report.step != options_.steps) return;
  const double ms = Milliseconds(time_since_line_) / static_cast<double>(steps_since_line_);
  std::printf("step %" PRIu64 "/%" PRIu64 "  loss %.4f  %.1f ms/step  %.0f tokens/s\n", report.step,
              options_.steps, report.loss, ms, static_cast<double>(report.tokens) / ms * 1000);
  time_since_line_ = {};
  steps_since_line_ = 0;
}

void Reporter::Checkpoint(const Saved& saved) {
  const std::lock_guard lock(mutex_);
  if (!saved.status.ok()) {
    LogWarning(Concat("no checkpoint of step ", saved.step, ": ", saved.status.message()));
    Event("checkpoint",
          Concat("\"step\":", saved.step, ",\"error\":", JsonText(saved.status.message())));
    return;
  }
  std::printf("checkpoint of step %" PRIu64 ": stall %.1f ms, written in %.1f ms\n", saved.step,
              Milliseconds(saved.stall), Milliseconds(saved.write));
  Event("checkpoint",
        Concat("\"step\":", saved.step, ",\"stall_ms\":", JsonNumber(Milliseconds(saved.stall)),
               ",\"write_ms\":", JsonNumber(Milliseconds(saved.write))));
}

void Reporter::Line(const std::string& text) {
  const std::lock_guard lock(mutex_);
  std::printf("%s\n", text.c_str());
}

}  // namespace muster::train_program
