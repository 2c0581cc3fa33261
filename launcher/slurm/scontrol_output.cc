#include "launcher/slurm/scontrol_output.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <set>

#include "common/host_list.h"
#include "common/text.h"

namespace muster::slurm {
namespace {

std::string Upper(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return out;
}

bool IsKeyByte(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '/' || c == ':';
}

// Where the next " Key=" begins at or after `from` (its blank), or npos.
std::size_t NextKey(std::string_view text, std::size_t from) {
  for (std::size_t at = text.find(' ', from); at != std::string_view::npos;
       at = text.find(' ', at + 1)) {
    std::size_t end = at + 1;
    while (end < text.size() && IsKeyByte(text[end])) ++end;
    if (end > at + 1 && end < text.size() && text[end] == '=' &&
        std::isupper(static_cast<unsigned char>(text[at + 1])) != 0) {
      return at;
    }
  }
  return std::string_view::npos;
}

// The value of `key` in a part of a record where all keys are Slurm's own; false if it is not
// there.
bool FindValue(std::string_view part, std::string_view key, std::string_view& value) {
  const std::string pattern = Concat(' ', key, '=');
  std::size_t begin = 0;
  if (!part.starts_with(std::string_view(pattern).substr(1))) {
    begin = part.find(pattern);
    if (begin == std::string_view::npos) return false;
    ++begin;
  }
  begin += key.size() + 1;
  value = Trim(part.substr(begin, NextKey(part, begin) - begin));
  return true;
}

// Slurm's "(null)" and "N/A" are nothing.
std::string_view ValueOr(std::string_view part, std::string_view key, std::string_view other) {
  std::string_view value;
  if (!FindValue(part, key, value) || value == "(null)" || value == "N/A") return other;
  return value;
}

// A job's record cut at the three places that a user's words cannot move: names are written before
// " UserId=", command, folder and comments after " Command=".
struct JobRecord {
  std::string_view head;    // JobId, array and het numbers
  std::string_view middle;  // all that Slurm itself decides
  std::string_view tail;
};

bool CutJobRecord(std::string_view line, JobRecord& record) {
  const std::size_t name = line.find(" JobName=");
  const std::size_t user = line.find(" UserId=", name == std::string_view::npos ? 0 : name);
  if (user == std::string_view::npos || !line.starts_with("JobId=")) return false;
  record.head = line.substr(0, std::min(name, user));
  const std::size_t command = std::min(line.find(" Command=", user), line.find(" WorkDir=", user));
  record.middle =
      line.substr(user + 1, command == std::string_view::npos ? command : command - user - 1);
  record.tail = command == std::string_view::npos ? std::string_view() : line.substr(command);
  return true;
}

Status Damaged(std::string_view line, std::string_view what) {
  return DataLoss(
      Concat("scontrol printed a record that is not understood (", what, "): ", Quote(line)));
}

// True if the array indexes of a record ("3", "1-5,7%2") hold the task.
bool HoldsTask(std::string_view indexes, std::uint32_t task) {
  indexes = indexes.substr(0, indexes.find('%'));
  for (std::string_view part : Split(indexes, ',')) {
    const std::string_view step_cut = part.substr(0, part.find(':'));
    const std::size_t dash = step_cut.find('-');
    const auto low = ParseInteger<std::uint32_t>("index", step_cut.substr(0, dash));
    const auto high = dash == std::string_view::npos
                          ? low
                          : ParseInteger<std::uint32_t>("index", step_cut.substr(dash + 1));
    if (!low.ok() || !high.ok() || task < low.value() || task > high.value()) continue;
    std::uint32_t step = 1;
    if (step_cut.size() < part.size()) {
      const auto parsed = ParseInteger<std::uint32_t>("step", part.substr(step_cut.size() + 1), 1);
      if (!parsed.ok()) continue;
      step = parsed.value();
    }
    if ((task - low.value()) % step == 0) return true;
  }
  return false;
}

bool IsRecordOf(const JobRecord& record, const JobId& job) {
  if (job.array_job.has_value()) {
    const std::string_view array = ValueOr(record.head, "ArrayJobId", "");
    return array == std::to_string(*job.array_job) &&
           HoldsTask(ValueOr(record.head, "ArrayTaskId", ""), job.array_task.value_or(0));
  }
  return ValueOr(record.head, "JobId", "") == std::to_string(job.id);
}

void ReadExitCode(std::string_view text, JobInfo& info) {
  const std::size_t colon = text.find(':');
  if (colon == std::string_view::npos) return;
  info.exit_code = ParseInteger<int>("exit code", text.substr(0, colon)).value_or(0);
  info.exit_signal = ParseInteger<int>("signal", text.substr(colon + 1)).value_or(0);
}

Status ReadMiddle(std::string_view line, std::string_view middle, JobInfo& info) {
  const std::string_view state = ValueOr(middle, "JobState", "");
  if (state.empty()) return Damaged(line, "no JobState");
  info.state = ParseJobState(state);
  info.reason = ValueOr(middle, "Reason", "");
  const auto restarts =
      ParseInteger<std::uint32_t>("Restarts", ValueOr(middle, "Restarts", "missing"));
  if (!restarts.ok()) return Damaged(line, restarts.status().message());
  info.restart_count = restarts.value();
  info.requeue = ValueOr(middle, "Requeue", "0") != "0";
  info.batch_host = ValueOr(middle, "BatchHost", "");
  const auto nodes = ExpandHostList(ValueOr(middle, "NodeList", ""));
  if (!nodes.ok()) return Damaged(line, nodes.status().message());
  info.nodes = nodes.value();
  const auto excluded = ExpandHostList(ValueOr(middle, "ExcNodeList", ""));
  if (!excluded.ok()) return Damaged(line, excluded.status().message());
  info.excluded_nodes = excluded.value();
  // "2", or "2-4" while pending.
  const std::string_view count = ValueOr(middle, "NumNodes", "0");
  info.node_count = ParseInteger<int>("NumNodes", count.substr(0, count.find('-')), 0).value_or(0);
  info.partition = ValueOr(middle, "Partition", "");
  if (const auto time = ParseSlurmTime(ValueOr(middle, "StartTime", "")); time.ok()) {
    info.start_time = time.value();
  }
  if (const auto time = ParseSlurmTime(ValueOr(middle, "EndTime", "")); time.ok()) {
    info.end_time = time.value();
  }
  info.time_limit = ParseTimeLimit(ValueOr(middle, "TimeLimit", "")).value_or(std::nullopt);
  ReadExitCode(ValueOr(middle, "ExitCode", ""), info);
  return OkStatus();
}

// The comment is the last text of a user's before the fixed StdErr, StdIn and StdOut.
std::string_view ReadComment(std::string_view tail) {
  tail = tail.substr(0, tail.rfind(" StdErr="));
  const std::size_t at = tail.rfind(" Comment=");
  if (at == std::string_view::npos) return {};
  const std::string_view value = Trim(tail.substr(at + std::string_view(" Comment=").size()));
  return value == "(null)" ? std::string_view() : value;
}

struct StateName {
  std::string_view name;
  JobState state;
};
constexpr std::array<StateName, 24> kStateNames = {{
    {"PENDING", JobState::kPending},
    {"CONFIGURING", JobState::kConfiguring},
    {"RUNNING", JobState::kRunning},
    {"SUSPENDED", JobState::kSuspended},
    {"STOPPED", JobState::kStopped},
    {"RESIZING", JobState::kResizing},
    {"SIGNALING", JobState::kSignaling},
    {"STAGE_OUT", JobState::kStageOut},
    {"COMPLETING", JobState::kCompleting},
    {"REQUEUED", JobState::kRequeued},
    {"REQUEUE_FED", JobState::kRequeued},
    {"REQUEUE_HOLD", JobState::kRequeueHold},
    {"SPECIAL_EXIT", JobState::kSpecialExit},
    {"COMPLETED", JobState::kCompleted},
    {"CANCELLED", JobState::kCancelled},
    {"REVOKED", JobState::kCancelled},
    {"FAILED", JobState::kFailed},
    {"LAUNCH_FAILED", JobState::kFailed},
    {"TIMEOUT", JobState::kTimeout},
    {"NODE_FAIL", JobState::kNodeFail},
    {"PREEMPTED", JobState::kPreempted},
    {"BOOT_FAIL", JobState::kBootFail},
    {"DEADLINE", JobState::kDeadline},
    {"OUT_OF_MEMORY", JobState::kOutOfMemory},
}};

}  // namespace

std::string_view JobStateName(JobState state) {
  for (const StateName& entry : kStateNames) {
    if (entry.state == state) return entry.name;
  }
  return "UNKNOWN";
}

bool IsEnded(JobState state) {
  switch (state) {
    case JobState::kUnknown:
    case JobState::kPending:
    case JobState::kConfiguring:
    case JobState::kRunning:
    case JobState::kSuspended:
    case JobState::kStopped:
    case JobState::kResizing:
    case JobState::kSignaling:
    case JobState::kStageOut:
    case JobState::kCompleting:
    case JobState::kRequeued:
    case JobState::kRequeueHold:
    case JobState::kSpecialExit:
      return false;
    case JobState::kCompleted:
    case JobState::kCancelled:
    case JobState::kFailed:
    case JobState::kTimeout:
    case JobState::kNodeFail:
    case JobState::kPreempted:
    case JobState::kBootFail:
    case JobState::kDeadline:
    case JobState::kOutOfMemory:
      return true;
  }
  return false;
}

JobState ParseJobState(std::string_view text) {
  // "CANCELLED by 1000", "RUNNING,COMPLETING" and "COMPLETING+..." of other tools and versions: the
  // job is ending as soon as one of the words says so.
  const std::string upper = Upper(text);
  if (upper.find("COMPLETING") != std::string::npos) return JobState::kCompleting;
  const std::string_view word = std::string_view(upper).substr(0, upper.find_first_of(" ,+"));
  for (const StateName& entry : kStateNames) {
    if (entry.name == word) return entry.state;
  }
  return JobState::kUnknown;
}

Result<JobInfo> ParseJobRecords(std::string_view output, const JobId& job) {
  for (std::string_view line : Split(output, '\n')) {
    line = Trim(line);
    if (line.empty()) continue;
    JobRecord record;
    if (!CutJobRecord(line, record)) return Damaged(line, "no JobId or no UserId");
    if (!IsRecordOf(record, job)) continue;
    JobInfo info;
    info.job = job;
    MUSTER_RETURN_IF_ERROR(ReadMiddle(line, record.middle, info));
    info.comment = ReadComment(record.tail);
    return info;
  }
  return NotFound(Concat("Slurm has no job ", job.Name()));
}

NodeInfo MakeNodeInfo(std::string_view name, std::string_view state) {
  NodeInfo node{.name = std::string(name), .state = Upper(Trim(state)), .reason = {}};
  // sinfo's marks behind the word: * not responding, ~ # % ! $ @ ^ - power, reboot, planned.
  bool silent = false;
  bool unusable = false;
  while (!node.state.empty() &&
         std::string_view("*~#%!$@^-").find(node.state.back()) != std::string_view::npos) {
    if (node.state.back() == '*') {
      silent = true;
    } else if (node.state.back() != '-') {  // a planned node runs jobs, the others do not
      unusable = true;
    }
    node.state.pop_back();
  }
  if (silent) node.state += "+NOT_RESPONDING";
  const std::vector<std::string_view> words = Split(node.state, '+');
  const auto has = [&words](std::initializer_list<std::string_view> any) {
    return std::any_of(words.begin(), words.end(), [&any](std::string_view word) {
      return std::find(any.begin(), any.end(), word) != any.end();
    });
  };
  node.down = has({"DOWN", "FAIL", "FAILED", "FAILING", "ERROR", "POWERED_DOWN", "POWER_DOWN"});
  node.draining = has({"DRAIN", "DRAINED", "DRAINING"});
  const bool base = has({"IDLE", "ALLOCATED", "MIXED", "ALLOC", "COMPLETING", "PLANNED"});
  const bool away = has({"NOT_RESPONDING", "NO_RESPOND", "POWERING_DOWN", "POWERING_UP", "POWER_UP",
                         "POWER_DRAIN", "REBOOT_ISSUED", "REBOOT", "INVALID_REG", "INVAL", "MAINT",
                         "FUTURE", "UNKNOWN"});
  node.usable = base && !away && !unusable && !node.down && !node.draining;
  return node;
}

Result<std::vector<NodeInfo>> ParseNodeRecords(std::string_view output) {
  std::vector<NodeInfo> nodes;
  for (std::string_view line : Split(output, '\n')) {
    line = Trim(line);
    if (line.empty()) continue;
    const std::string_view name = ValueOr(line, "NodeName", "");
    // What people write (Comment, Extra, Reason) comes behind State.
    const std::string_view state = ValueOr(line, "State", "");
    if (!line.starts_with("NodeName=") || name.empty() || state.empty()) {
      return Damaged(line, "no NodeName or no State");
    }
    NodeInfo node = MakeNodeInfo(name, state);
    if (const std::size_t at = line.rfind(" Reason="); at != std::string_view::npos) {
      node.reason = line.substr(at + std::string_view(" Reason=").size());
    }
    nodes.push_back(std::move(node));
  }
  return nodes;
}

Result<std::vector<NodeInfo>> ParseNodeLines(std::string_view output) {
  std::vector<NodeInfo> nodes;
  std::set<std::string> seen;  // a node of several partitions has a line for each
  for (std::string_view line : Split(output, '\n')) {
    line = Trim(line);
    if (line.empty()) continue;
    const std::size_t first = line.find('|');
    if (first == std::string_view::npos) return Damaged(line, "no | between name and state");
    const std::size_t second = std::min(line.find('|', first + 1), line.size());
    NodeInfo node = MakeNodeInfo(line.substr(0, first), line.substr(first + 1, second - first - 1));
    node.reason = Trim(line.substr(std::min(second + 1, line.size())));
    if (node.reason == "none") node.reason.clear();
    if (seen.insert(node.name).second) nodes.push_back(std::move(node));
  }
  return nodes;
}

Result<WallTime> ParseSlurmTime(std::string_view text) {
  const Status refusal =
      InvalidArgument(Concat("time ", Quote(text), " is not YYYY-MM-DDTHH:MM:SS"));
  if (text.size() != 19 || text[4] != '-' || text[7] != '-' || text[10] != 'T' || text[13] != ':' ||
      text[16] != ':') {
    return refusal;
  }
  const auto part = [text](std::size_t at, std::size_t size, int low, int high) {
    const std::string_view digits = text.substr(at, size);
    // A sign would be read as part of the number.
    if (digits.find_first_not_of("0123456789") != std::string_view::npos) return -1;
    return ParseInteger<int>("time", digits, low, high).value_or(-1);
  };
  const int year = part(0, 4, 1970, 9999);
  const int month = part(5, 2, 1, 12);
  const int day = part(8, 2, 1, 31);
  const int hour = part(11, 2, 0, 23);
  const int minute = part(14, 2, 0, 59);
  const int second = part(17, 2, 0, 60);
  if (year < 0 || month < 0 || day < 0 || hour < 0 || minute < 0 || second < 0) return refusal;
  const std::chrono::year_month_day date{std::chrono::year(year),
                                         std::chrono::month(static_cast<unsigned>(month)),
                                         std::chrono::day(static_cast<unsigned>(day))};
  if (!date.ok()) return refusal;
  return WallTime(std::chrono::sys_days(date)) + std::chrono::hours(hour) +
         std::chrono::minutes(minute) + std::chrono::seconds(second);
}

Result<std::optional<Duration>> ParseTimeLimit(std::string_view text) {
  if (text.empty() || Upper(text) == "UNLIMITED" || Upper(text) == "INFINITE") {
    return std::optional<Duration>();
  }
  std::int64_t days = 0;
  std::string_view clock = text;
  if (const std::size_t dash = text.find('-'); dash != std::string_view::npos) {
    MUSTER_ASSIGN_OR_RETURN(
        days, ParseInteger<std::int64_t>("days of a time limit", text.substr(0, dash), 0, 100000));
    clock = text.substr(dash + 1);
  }
  const std::vector<std::string_view> parts = Split(clock, ':');
  if (parts.size() != 3) {
    return InvalidArgument(Concat("time limit ", Quote(text), " is not [D-]HH:MM:SS"));
  }
  std::int64_t seconds = 0;
  for (const std::string_view part : parts) {
    MUSTER_ASSIGN_OR_RETURN(const auto number,
                            ParseInteger<std::int64_t>("part of a time limit", part, 0, 1000000));
    seconds = seconds * 60 + number;
  }
  return std::optional<Duration>(std::chrono::seconds(days * 86400 + seconds));
}

}  // namespace muster::slurm
