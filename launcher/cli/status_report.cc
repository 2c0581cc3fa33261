#include "launcher/cli/status_report.h"

#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "common/text.h"
#include "launcher/agent/files.h"
#include "launcher/cli/daemon_call.h"
#include "launcher/cli/find_run.h"
#include "launcher/cli/json_fields.h"
#include "launcher/host/state_folder.h"

namespace muster::cli {
namespace {

// Thousands of nodes, a hundred bytes each.
constexpr std::size_t kStatusBytesMax = std::size_t{16} << 20U;

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

std::int64_t AttemptOf(const Json& status) {
  const Json* fence = Field(status, "fence");
  return fence == nullptr ? 0 : Number(*fence, "attempt", 0);
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

}  // namespace

std::string OutcomeOf(const RunReport& run) {
  const Json status = Json::parse(run.status, nullptr, false);
  const Json* verdict = Field(status, "verdict");
  const std::string outcome = verdict == nullptr ? "" : Text(*verdict, "outcome");
  return outcome == protocol::ToString(protocol::Outcome::kNone) ? "" : outcome;
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

RunReport ReadRun(const std::string& folder, bool ask) {
  RunReport report;
  report.name = std::filesystem::path(folder).filename().string();
  report.folder = folder;
  const host::RunFiles files{report.folder};
  const Result<host::OperatorAccess> access = host::ReadOperatorAccess(files);
  if (access.ok() && !ask) {
    report.problem = "its daemon was not asked";
  } else if (access.ok()) {
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
  // The host writes the verdict where the daemon could not. That of an attempt before this one says
  // nothing about it.
  const auto verdict = host::NewestVerdict(files);
  if (!verdict.ok() && report.problem.empty()) report.problem = verdict.status().message();
  if (verdict.ok() && *verdict && std::int64_t{(*verdict)->attempt} >= AttemptOf(json)) {
    if (!json.is_object()) json = Object(protocol::RunView{});
    const protocol::Verdict& end = (*verdict)->verdict;
    json["verdict"] = {{"outcome", protocol::ToString(end.outcome)},
                       {"exit_code", end.exit_code},
                       {"blame", Object(end.blame)}};
  }
  if (json.is_object()) report.status = Dump(json);
  return report;
}

Result<std::vector<RunReport>> ReadRuns(const std::string& base, const std::string& name) {
  MUSTER_ASSIGN_OR_RETURN(const std::vector<std::string> folders, RunFolders(base, name));
  std::vector<RunReport> runs;
  for (const std::string& folder : folders) runs.push_back(ReadRun(folder));
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
