#include "launcher/cli/status_report.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "common/text.h"
#include "launcher/agent/files.h"
#include "launcher/host/state_folder.h"
#include "launcher/host/view_watch.h"
#include "rendezvousd/client/client.h"

namespace muster::cli {
namespace {

using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

// The daemon answers in milliseconds; a dead one must not make people wait.
constexpr Duration kLiveDeadline = std::chrono::seconds(2);
// Thousands of nodes, a hundred bytes each.
constexpr std::size_t kStatusBytesMax = std::size_t{16} << 20U;

bool IsRunFolder(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path / "spec.json", ignored);
}

bool HasRuns(const fs::path& path) {
  std::error_code ignored;
  return IsRunFolder(path) || fs::exists(path / "runs.json", ignored);
}

std::optional<std::string> FromPointer(const std::string& pointers, const std::string& job) {
  if (pointers.empty() || job.empty() || job.find('/') != std::string::npos) return std::nullopt;
  const Result<std::string> text = agent::ReadSmallFile(pointers + "/" + job, 4096);
  if (!text.ok()) return std::nullopt;
  return std::string(Trim(*text));
}

std::optional<std::string> Newest(const std::string& pointers) {
  std::optional<fs::path> newest;
  fs::file_time_type time;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(pointers, error)) {
    const auto written = entry.last_write_time(error);
    if (error || (newest && written <= time)) continue;
    const auto base = FromPointer(pointers, entry.path().filename().string());
    if (!base || !HasRuns(*base)) continue;
    newest = *base;
    time = written;
  }
  if (!newest) return std::nullopt;
  return newest->string();
}

Json Object(const protocol::Blame& blame) {
  return {{"cause", protocol::ToString(blame.cause)},
          {"node", blame.node},
          {"rank", blame.rank},
          {"exit_code", blame.exit_code},
          {"text", blame.text}};
}

// As the daemon's status.json (rendezvousd/server/view_json.h).
Json Object(const protocol::RunView& view) {
  Json agents = Json::array();
  for (const protocol::AgentView& agent : view.agents) {
    agents.push_back({{"node", agent.key.node},
                      {"step", agent.key.step_id},
                      {"task", agent.key.task_id},
                      {"state", agent.state},
                      {"node_rank", agent.node_rank},
                      {"workers", agent.workers},
                      {"last_step", agent.last_step}});
  }
  const auto now = std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::system_clock::now().time_since_epoch());
  return {{"run_id", view.run_id},
          {"updated_unix_ms", now.count()},
          {"phase", view.phase},
          {"fence", {{"attempt", view.fence.attempt}, {"round", view.fence.round}}},
          {"world_size", view.world_size},
          {"waiting_for", view.waiting_for},
          {"last_blame", Object(view.last_blame)},
          {"verdict",
           {{"outcome", protocol::ToString(view.verdict.outcome)},
            {"exit_code", view.verdict.exit_code},
            {"blame", Object(view.verdict.blame)}}},
          {"agents", std::move(agents)}};
}

std::string Dump(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

Result<protocol::RunView> AskDaemon(const host::OperatorAccess& access) {
  Status last = Unavailable("no endpoint is known");
  for (const std::string& endpoint : access.endpoints) {
    client::Options options;
    options.target = endpoint;
    options.certificate = access.certificate;
    options.secret = access.secret;
    MUSTER_ASSIGN_OR_RETURN(const auto client, client::Client::Create(std::move(options)));
    Result<protocol::RunView> view = client->View(kLiveDeadline);
    if (view.ok()) return view;
    last = view.status().With(endpoint);
  }
  return last;
}

RunReport ReadRun(const fs::path& folder) {
  RunReport report;
  report.name = folder.filename().string();
  report.folder = folder.string();
  const host::RunFiles files{report.folder};
  const Result<host::OperatorAccess> access = host::ReadOperatorAccess(files);
  if (access.ok()) {
    const Result<protocol::RunView> view = AskDaemon(*access);
    if (view.ok()) {
      report.live = true;
      report.status = Dump(Object(*view));
      return report;
    }
    report.problem =
        Concat("the daemon on ", access->host, " does not answer: ", view.status().message());
  } else if (access.status().code() != StatusCode::kNotFound) {
    report.problem = access.status().message();
  }
  Json json;
  if (const auto text = agent::ReadSmallFile(files.StatusFile(), kStatusBytesMax); text.ok()) {
    json = Json::parse(*text, nullptr, false);
  }
  // The host writes the verdict where the daemon could not.
  if (const auto verdict = host::NewestVerdict(files); verdict.ok() && *verdict) {
    if (!json.is_object()) json = Object(protocol::RunView{});
    const protocol::Verdict& end = (*verdict)->verdict;
    json["verdict"] = {{"outcome", protocol::ToString(end.outcome)},
                       {"exit_code", end.exit_code},
                       {"blame", Object(end.blame)}};
  }
  if (json.is_object()) report.status = Dump(json);
  return report;
}

std::string AgentsText(const Json& status) {
  std::string out;
  for (const Json& agent : status.value("agents", Json::array())) {
    std::string line = Concat("    ", agent.value("node", ""), "  ", agent.value("state", ""));
    if (agent.value("node_rank", -1) >= 0) {
      line += Concat(", node rank ", agent.value("node_rank", -1));
    }
    if (agent.value("last_step", std::int64_t{-1}) >= 0) {
      line += Concat(", step ", agent.value("last_step", std::int64_t{-1}));
    }
    out += line + "\n";
  }
  return out;
}

std::string StatusText(const RunReport& run) {
  std::string out = Concat(run.name, ": ");
  const Json status = Json::parse(run.status, nullptr, false);
  if (!status.is_object()) {
    return Concat(out, "nothing is written yet",
                  run.problem.empty() ? "" : Concat(" (", run.problem, ")"), "\n");
  }
  const Json fence = status.value("fence", Json::object());
  const Json verdict = status.value("verdict", Json::object());
  const std::string outcome = verdict.value("outcome", "");
  const bool over = !outcome.empty() && outcome != protocol::ToString(protocol::Outcome::kNone);
  if (over) {
    out += Concat(outcome, ", exit code ", verdict.value("exit_code", 0));
    const std::string why = verdict.value("blame", Json::object()).value("text", "");
    if (!why.empty()) out += Concat(": ", why);
  } else {
    out += Concat(status.value("phase", "?"), ", attempt ", fence.value("attempt", 0U), " round ",
                  fence.value("round", 0U), ", world size ", status.value("world_size", 0U));
  }
  out += "\n";
  const std::string waiting = status.value("waiting_for", "");
  if (!over && !waiting.empty()) out += Concat("  ", waiting, "\n");
  const std::string blame = status.value("last_blame", Json::object()).value("text", "");
  if (!over && !blame.empty()) out += Concat("  last trouble: ", blame, "\n");
  if (!run.problem.empty()) out += Concat("  from its files, for ", run.problem, "\n");
  if (!over) out += AgentsText(status);
  return out;
}

// What a hand or another version wrote may have other types than ours.
std::string RunText(const RunReport& run) {
  try {
    return StatusText(run);
  } catch (const Json::exception& damaged) {
    return Concat(run.name, ": ", run.folder, "/status.json cannot be read: ", damaged.what(),
                  "\n");
  }
}

Json RunJson(const RunReport& run) {
  Json json = Json::parse(run.status, nullptr, false);
  if (!json.is_object()) json = Json::object();
  json["name"] = run.name;
  json["folder"] = run.folder;
  json["live"] = run.live;
  if (!run.problem.empty()) json["problem"] = run.problem;
  return json;
}

}  // namespace

Result<std::string> FindBase(const std::string& word, const std::string& state_dir,
                             const slurm::EnvironmentMap& environment, const std::string& folder) {
  std::string looked;
  const auto usable = [&](const std::string& path) {
    if (HasRuns(path)) return true;
    looked += Concat(looked.empty() ? "" : ", ", path);
    return false;
  };
  const std::string pointers = host::PointerFolder(environment);
  if (word.empty()) {
    if (!state_dir.empty() && usable(state_dir)) return state_dir;
    const std::string job(slurm::Lookup(environment, "SLURM_JOB_ID"));
    if (const auto around = FromPointer(pointers, job); around && usable(*around)) return *around;
    if (const auto newest = Newest(pointers)) return *newest;
    return NotFound(Concat("no run is known (looked in ", pointers,
                           looked.empty() ? "" : ", " + looked, "); name a job or a state folder"));
  }
  if (const fs::path path = fs::path(folder) / word; usable(path.string())) return path.string();
  if (const auto base = FromPointer(pointers, word); base && usable(*base)) return *base;
  if (!state_dir.empty() && usable(state_dir)) return state_dir;
  if (const fs::path path = fs::path(folder) / ".muster" / word; usable(path.string())) {
    return path.string();
  }
  return NotFound(Concat("no run of ", Quote(word), " is known (looked for ", looked,
                         "); has the job started `muster run`, and in which folder?"));
}

Result<std::vector<RunReport>> ReadRuns(const std::string& base) {
  std::vector<RunReport> runs;
  if (IsRunFolder(base)) {
    runs.push_back(ReadRun(fs::path(base).lexically_normal()));
    return runs;
  }
  std::vector<std::pair<fs::file_time_type, fs::path>> folders;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(base, error)) {
    if (!IsRunFolder(entry.path())) continue;
    folders.emplace_back(fs::last_write_time(entry.path() / "spec.json", error), entry.path());
  }
  if (folders.empty()) return NotFound(Concat("no run has started in ", base));
  std::ranges::sort(folders);
  for (const auto& [time, path] : folders) runs.push_back(ReadRun(path));
  return runs;
}

std::string ReportText(const std::string& base, const std::vector<RunReport>& runs) {
  std::string out = Concat("state folder ", base, "\n");
  for (const RunReport& run : runs) out += RunText(run);
  return out;
}

std::string ReportJson(const std::string& base, const std::vector<RunReport>& runs) {
  Json json = RunJson(runs.back());
  if (runs.size() > 1) {
    Json all = Json::array();
    for (const RunReport& run : runs) all.push_back(RunJson(run));
    json["runs"] = std::move(all);
  }
  json["state_dir"] = base;
  return Dump(json);
}

}  // namespace muster::cli
